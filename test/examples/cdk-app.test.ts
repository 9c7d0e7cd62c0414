import { App, type Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { expect, it } from 'vitest';
import { allowedTo, UNBUNDLED } from '../infra/stage.ts';
import { ordersApp } from './cdk-app.ts';

it('adds the layer to an app that is there, in a few lines', () => {
  const app = ordersApp(new App({ context: UNBUNDLED, analyticsReporting: false }));
  expect(() => app.synth()).not.toThrow();
  const template = Template.fromStack(app.node.findChild('Orders') as Stack);
  expect(allowedTo(template, /^Order[0-9A-F]/)).toContain('dynamodb:PutItem on LedgerTable');
  template.resourceCountIs('AWS::Lambda::EventSourceMapping', 1);
  template.resourceCountIs('AWS::Scheduler::Schedule', 2);
  template.resourceCountIs('AWS::CloudWatch::Dashboard', 1);
});
