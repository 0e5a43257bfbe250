"""The look of the report: one column, light and dark, and black on white when it is printed."""

STYLE = """
:root { --paper: #ffffff; --ink: #16202c; --soft: #5b6776; --rule: #dde3ea; --card: #f5f7fa;
        --one: #2463c5; --two: #d9822b; --good: #1b7f4b; --bad: #c0362c; --faint: #9db4d8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12171e; --ink: #e8edf3; --soft: #9aa7b6; --rule: #2b3541; --card: #1a212b;
          --one: #6ea3f2; --two: #f0a557; --good: #59c08b; --bad: #f0776d; --faint: #3e5a86; } }
@media print {
  :root { --paper: #ffffff; --ink: #000000; --soft: #444444; --rule: #cccccc; --card: #ffffff;
          --one: #2463c5; --two: #d9822b; --good: #1b7f4b; --bad: #c0362c; --faint: #9db4d8; }
  section { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 60rem; background: var(--paper); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
header p.where { margin: 0; color: var(--soft); }
h1 { margin: .35rem 0 .75rem; font-size: 1.6rem; line-height: 1.3; font-weight: 650; text-wrap: balance; }
h2 { margin: 0 0 .25rem; font-size: 1.15rem; }
section { margin-top: 2.5rem; }
section > p { margin: 0 0 .75rem; color: var(--soft); }
.verdict { display: inline-block; padding: .15rem .7rem; border-radius: 1rem; border: 1px solid currentColor;
           font-weight: 600; font-size: .9rem; }
.verdict.good { color: var(--good); } .verdict.bad { color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem; margin-top: 1.5rem; }
.cards div { padding: .8rem 1rem; border: 1px solid var(--rule); border-radius: .5rem; background: var(--card); }
.cards b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.cards span { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child, td.words, th.words { text-align: left; }
td.words { white-space: normal; min-width: 14rem; }
svg { display: block; width: 100%; height: auto; margin: .5rem 0 1rem; overflow: visible; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg text.small { fill: var(--soft); font-size: 11.5px; }
svg .rule { stroke: var(--rule); } svg .one { fill: var(--one); } svg .two { fill: var(--two); }
svg .good { fill: var(--good); } svg .bad { fill: var(--bad); }
svg .line { fill: none; stroke-width: 3; } svg .line.one { stroke: var(--one); } svg .line.two { stroke: var(--two); }
svg .line.quiet { stroke: var(--faint); stroke-width: 1; }
section > p > span { display: block; margin-left: -.9em; }
.key { display: inline-block; width: .75em; height: .75em; margin: 0 .35em 0 .9em; border-radius: 2px; }
.key.one { background: var(--one); } .key.two { background: var(--two); } .key.faint { background: var(--faint); }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
"""
