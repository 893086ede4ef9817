// Prints the failed tests of a TAP log with the message of each.
import { readFileSync } from 'node:fs';

const lines = readFileSync(process.argv[2], 'utf8').split('\n');
for (let i = 0; i < lines.length; i++) {
  if (!/^ *not ok /.test(lines[i])) continue;
  console.log(lines[i].trim());
  const end = lines.findIndex((line, k) => k > i && /^ *(\.\.\.|stack: )/.test(line));
  const from = lines.findIndex((line, k) => k > i && /^ *error: /.test(line));
  if (from > 0 && from < end) console.log(lines.slice(from, Math.min(end, from + 14)).join('\n'));
}
