import { EventEmitter } from 'node:events';
import { expect, it } from 'vitest';
import { awaitEnding } from '../../lib/cli/ending.ts';

function stage() {
  const [signals, output] = [new EventEmitter(), new EventEmitter()];
  const time = { now: 0 };
  let hurried = 0;
  const hurry = () => {
    hurried += 1;
  };
  const ports = { signals, outputs: [output], hurry, clock: () => time.now };
  return { time, signals, output, hurried: () => hurried, ...awaitEnding(ports) };
}

it.each(['SIGINT', 'SIGTERM', 'SIGHUP'])('the first %s ends in order, and the second at once', (name) => {
  const { time, signals, signal, hurried } = stage();
  expect(signal.aborted).toBe(false);
  signals.emit(name);
  expect([signal.aborted, hurried()]).toEqual([true, 0]);
  time.now += 1_000;
  signals.emit(name);
  expect(hurried()).toBe(1);
});

it('a Ctrl-C that also npm passes on is one', () => {
  const { time, signals, hurried } = stage();
  signals.emit('SIGINT');
  time.now += 999;
  signals.emit('SIGINT');
  expect(hurried()).toBe(0);
});

it('an output that nobody reads any more ends in order, however much is still written to it', () => {
  const { output, signal, hurried, forget } = stage();
  output.emit('error', new Error('write EPIPE'));
  expect(signal.aborted).toBe(true);
  output.emit('error', new Error('write EPIPE'));
  forget();
  output.emit('error', new Error('write EIO'));
  expect(hurried()).toBe(0);
});

it('a signal and an output that has gone, as of a closed terminal, are one ending', () => {
  const { output, signals, hurried } = stage();
  signals.emit('SIGHUP');
  output.emit('error', new Error('write EIO'));
  expect(hurried()).toBe(0);
});

it('signals are left to others once it is forgotten', () => {
  const { signals, forget } = stage();
  forget();
  expect(signals.eventNames()).toEqual([]);
});
