import type { Found } from './inventory.ts';

/**
 * What changes nothing in how an app behaves here: who may do what, what is kept and shown of it, where in a network it is,
 * how it gets there. A type that is neither here nor modelled is a problem, so that nothing is left out in silence.
 */
export const QUIET_TYPES: ReadonlySet<string> = new Set([
  // The CLI's own.
  'AWS::CDK::Metadata',
  // Permissions and keys: everybody may do everything here, and nothing is encrypted.
  'AWS::IAM::ManagedPolicy',
  'AWS::IAM::Policy',
  'AWS::IAM::Role',
  'AWS::KMS::Alias',
  'AWS::KMS::Key',
  'AWS::Lambda::CodeSigningConfig',
  'AWS::Lambda::Permission',
  'AWS::S3::BucketPolicy',
  'AWS::SecretsManager::ResourcePolicy',
  'AWS::SNS::TopicPolicy',
  'AWS::SQS::QueuePolicy',
  // Logs, metrics and alarms, and whom they tell. A function that publishes to a topic itself is a problem of its own.
  'AWS::CloudWatch::Alarm',
  'AWS::CloudWatch::AnomalyDetector',
  'AWS::CloudWatch::CompositeAlarm',
  'AWS::CloudWatch::Dashboard',
  'AWS::CloudWatch::InsightRule',
  'AWS::Logs::LogGroup',
  'AWS::Logs::MetricFilter',
  'AWS::Logs::QueryDefinition',
  'AWS::Logs::ResourcePolicy',
  'AWS::SNS::Topic',
  'AWS::XRay::Group',
  'AWS::XRay::SamplingRule',
  // How new versions are rolled out, and how many environments are kept warm.
  'AWS::ApiGatewayV2::Deployment',
  'AWS::ApplicationAutoScaling::ScalableTarget',
  'AWS::ApplicationAutoScaling::ScalingPolicy',
  'AWS::CodeDeploy::Application',
  'AWS::CodeDeploy::DeploymentConfig',
  'AWS::CodeDeploy::DeploymentGroup',
  // What CDK does itself while something is deployed or deleted.
  'Custom::LogRetention',
  'Custom::S3AutoDeleteObjects',
  'Custom::VpcRestrictDefaultSG',
  // What only groups schedules.
  'AWS::Scheduler::ScheduleGroup',
  // Networks: a function here reaches what this machine reaches.
  'AWS::EC2::EIP',
  'AWS::EC2::FlowLog',
  'AWS::EC2::InternetGateway',
  'AWS::EC2::NatGateway',
  'AWS::EC2::Route',
  'AWS::EC2::RouteTable',
  'AWS::EC2::SecurityGroup',
  'AWS::EC2::SecurityGroupEgress',
  'AWS::EC2::SecurityGroupIngress',
  'AWS::EC2::Subnet',
  'AWS::EC2::SubnetRouteTableAssociation',
  'AWS::EC2::VPC',
  'AWS::EC2::VPCEndpoint',
  'AWS::EC2::VPCGatewayAttachment',
  // Backups.
  'AWS::Backup::BackupPlan',
  'AWS::Backup::BackupSelection',
  'AWS::Backup::BackupVault',
]);

/** An alarm that nobody is mailed is of no matter here; a function that nobody invokes is. */
export function requirePerson({ properties }: Found): void {
  const protocol = properties.text('Protocol');
  if (['email', 'email-json', 'sms', 'http', 'https'].includes(protocol)) return;
  throw properties.problem(
    'Protocol',
    `it is ${protocol}; nothing is published to topics in the local cloud, so nothing would ever come from this one.`,
  );
}

/** Where part of the invocations goes to another version, both would have to be there. */
export function requireOneVersion({ properties }: Found): void {
  if (!properties.has('RoutingConfig')) return;
  throw properties.problem('RoutingConfig', 'the local cloud has one version of a function, the newest.');
}
