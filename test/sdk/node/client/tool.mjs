export const toolName = 'get_weather';
export const toolArgs = { city: 'Zürich "Altstadt"', days: 3, units: { temperature: 'C' } };
export const toolSchema = {
  type: 'object',
  properties: {
    city: { type: 'string' },
    days: { type: 'integer' },
    units: { type: 'object', properties: { temperature: { type: 'string' } } },
  },
};

// Makes the simulator call the tool; more refines the step.
export const toolScript = (more) => ({ tool: toolName, tool_args: toolArgs, ...more });

// Appends a piece of a tool call.
export function addCall(out, name, args) {
  out.call ??= { name: '', args: '' };
  out.call.name += name ?? '';
  out.call.args += args ?? '';
}
