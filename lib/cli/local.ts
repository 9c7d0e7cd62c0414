import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { startCloud } from '../local/cloud.ts';
import { Ended } from '../local/opened.ts';
import { jsonReporter, terminalReporter } from '../local/output/terminal.ts';
import { tryThis } from '../local/output/try-this.ts';
import { LOCAL_USAGE, localSettings } from '../local/settings.ts';
import type { Command } from './command.ts';
