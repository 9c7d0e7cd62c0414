#!/usr/bin/env node
import { referenceApp } from '../lib/infra/reference/app.ts';

referenceApp(process.env).synth();
