/**
 * Make one module that dresses the page: the style sheets of the picture and of the panel, without
 * comments and indentation. A bundler's own loader for them would be a fifth of their size.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const pictures = '../../jupyter_dist/views/topology/static';
const sheets = [`${pictures}/topology.css`, `${pictures}/rank_panel.css`, './panel.css'];

const joined = sheets
  .map(sheet => readFileSync(new URL(sheet, import.meta.url), 'utf8'))
  .join('\n')
  .replace(/\/\*[^]*?\*\//g, '')
  .replace(/\s+/g, ' ')
  .replace(/ ?([{};,]) ?/g, '$1')
  .replace(/([{;][-\w]+): /g, '$1:')
  .replace(/;}/g, '}')
  .trim();

mkdirSync(new URL('../lib', import.meta.url), { recursive: true });
writeFileSync(
  new URL('../lib/style.js', import.meta.url),
  `const node = document.createElement('style');
node.textContent = ${JSON.stringify(joined)};
document.head.append(node);
`
);
