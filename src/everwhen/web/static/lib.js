// The libraries in one place: every module of ours imports them from here.
import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { batch, computed, effect, signal, useSignal, useComputed } from "./vendor/signals.js";
export const html = htm.bind(h);
