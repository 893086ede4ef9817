// Takes addresses out of package-lock.json: where packages come from is the machine's setting, not the project's.
import { readFileSync, writeFileSync } from 'node:fs';

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
for (const entry of Object.values(lock.packages)) {
  delete entry.resolved;
  delete entry.funding;
}
writeFileSync('package-lock.json', `${JSON.stringify(lock, undefined, 2)}\n`);
