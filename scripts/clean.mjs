// A file that no longer exists in lib must not live on in the package.
import { rmSync } from 'node:fs';

rmSync('dist', { recursive: true, force: true });
