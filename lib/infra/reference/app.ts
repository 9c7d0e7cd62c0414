import { App, type AppProps, Aspects, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { ProtectedRoutes } from '../api-routes.ts';
import { ServiceStack } from './service-stack.ts';
import { settingsOf } from './settings.ts';
import { StateStack } from './state-stack.ts';

/** The whole of the reference deployment, with everything that checks it. */
export function referenceApp(environment: NodeJS.ProcessEnv, props: AppProps = {}): App {
  const app = new App(props);
  const settings = settingsOf(app);
  // As the CLI is logged in. Without an account, stacks stay what they are in any, which suffices for all but a key of one's own.
  const { CDK_DEFAULT_ACCOUNT: account, CDK_DEFAULT_REGION: region } = environment;
  const env = { ...(account && { account }), ...(region && { region }) };
  const state = new StateStack(app, 'OncekeyState', { env, settings });
  new ServiceStack(app, 'OncekeyService', { env, state, settings });
  Aspects.of(app).add(
    new ProtectedRoutes().exempt(
      'POST /webhooks/stripe',
      'Each event is deduped by its id, in the ledger itself.',
    ),
  );
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  return app;
}
