/** What is odd of GPUs in words that stay the same while it is: what counts on is left out. */

import { hostWarnings, warningsOf } from "./facts.js";

/** @param {Gpu} gpu @returns {Gpu} without the age of its Xid and the memory that others use */
function withoutCounts(gpu) {
  const problem = [gpu.problem, gpu.xid && `Xid ${gpu.xid}`].filter(Boolean).join(", ");
  const strangers = gpu.strangers?.map((stranger) => ({ ...stranger, memory_bytes: 0 }));
  return { ...gpu, problem, xid: 0, strangers };
}

/** @param {Gpu} gpu */
export const steadyWarnings = (gpu) => warningsOf(withoutCounts(gpu));

/** The same of all GPUs of a host. @param {Host} host */
export const steadyHostWarnings = (host) => hostWarnings({ ...host, gpus: host.gpus.map(withoutCounts) });
