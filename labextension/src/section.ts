import { element, setText } from './dom';

/** A part of the panel that opens and closes, with its heading; built of what a keyboard knows. */
export class Section {
  readonly node: HTMLDetailsElement;
  readonly body = element('div', { class: 'jdp-body' });
  private readonly heading: HTMLElement;

  constructor(title: string, className: string, isOpen = true) {
    this.heading = element('h3', {}, title);
    this.node = element(
      'details',
      { class: `jdp-section ${className}`, open: isOpen },
      element('summary', {}, this.heading),
      this.body
    );
  }

  set title(title: string) {
    setText(this.heading, title);
  }
}
