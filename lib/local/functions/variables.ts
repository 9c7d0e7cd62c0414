import { devNull } from 'node:os';
import { type FunctionModel, LOCAL_REGION } from '../model.ts';

export interface Surroundings {
  /** Where the code is seen, as `/var/task` on Lambda. */
  readonly taskRoot: string;
  readonly logStream: string;
  /** Such as `AWS_ENDPOINT_URL_DYNAMODB`. They come last: whoever runs the cloud says where it is. */
  readonly endpoints: Readonly<Record<string, string>>;
  readonly path: string;
}

/**
 * Everything that a function sees of its environment. Nothing of ours is passed on but the path to programs: a developer's
 * shell has credentials of a real account in it, and a function that found them would write into that account.
 */
export function variablesOf(
  { name, handler, memoryMb, environment }: FunctionModel,
  { taskRoot, logStream, endpoints, path }: Surroundings,
): Record<string, string> {
  return {
    ...environment,
    PATH: path,
    TZ: 'UTC',
    LANG: 'en_US.UTF-8',
    _HANDLER: handler,
    LAMBDA_TASK_ROOT: taskRoot,
    AWS_EXECUTION_ENV: `AWS_Lambda_nodejs${process.versions.node.split('.')[0]}.x`,
    AWS_LAMBDA_FUNCTION_NAME: name,
    AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(memoryMb),
    AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
    AWS_LAMBDA_LOG_GROUP_NAME: `/aws/lambda/${name}`,
    AWS_LAMBDA_LOG_STREAM_NAME: logStream,
    AWS_REGION: LOCAL_REGION,
    AWS_DEFAULT_REGION: LOCAL_REGION,
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
    AWS_SESSION_TOKEN: 'local',
    // The other places where the SDK looks for credentials and endpoints: files in the home folder, and EC2's metadata.
    AWS_CONFIG_FILE: devNull,
    AWS_SHARED_CREDENTIALS_FILE: devNull,
    AWS_EC2_METADATA_DISABLED: 'true',
    ...endpoints,
  };
}
