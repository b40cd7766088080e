// The whole life of a schedule with the client that openapi-typescript and openapi-fetch make of the document.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };
const [url, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url!, headers: { Authorization: `Bearer ${token}` } });

function told<Data>(found: { data?: Data; error?: components["schemas"]["Problem"]; response: Response }): Data {
  if (found.error !== undefined) {
    throw new Error(`${found.response.status}: ${found.error.detail}`);
  }
  return found.data as Data;
}

function same(found: unknown, wanted: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
  }
}

const body: components["schemas"]["ScheduleBody"] = {
  name: "typed nightly",
  cron: "0 2 * * *",
  if_running: "queue",
  circuit_breaker: { threshold: 2 },
  retry_delay: "5m",
  run: { http: { url: "https://example.com/run", method: "PUT" } },
};
const made = told(await client.POST("/api/v1/schedules/", { body }));
const path = { schedule_id: made.id };
same([made.status, made.run.http?.method, made.circuit_breaker?.threshold], ["active", "PUT", 2]);

const changed = told(
  await client.PATCH("/api/v1/schedules/{schedule_id}/", { params: { path }, body: { name: "typed weekly", jitter: null } }),
);
same([changed.name, changed.cron, changed.if_running, changed.revision], ["typed weekly", "0 2 * * *", "queue", 2]);

const query = { fields: ["name" as const, "status" as const], include: ["summary" as const], q: "typed weekly" };
const list = told(await client.GET("/api/v1/schedules/", { params: { query } }));
same([list.total, list.items[0]?.name, list.items[0]?.cron], [1, "typed weekly", undefined]);

const key = { path: { key: "typescript" } };
const workflow = { interval_seconds: 3600, workflow_id: 1 };
const keyed = told(await client.PUT("/api/v1/schedules/key/{key}/", { params: key, body: workflow }));
const again = told(await client.GET("/api/v1/schedules/key/{key}/", { params: key }));
same([again.id, again.workflow_id, again.key], [keyed.id, 1, "typescript"]);

same(told(await client.POST("/api/v1/schedules/{schedule_id}/pause/", { params: { path } })).status, "paused");
same(told(await client.POST("/api/v1/schedules/{schedule_id}/resume/", { params: { path } })).status, "active");
const payload = { by: "hand" };
const fired = told(
  await client.POST("/api/v1/schedules/{schedule_id}/trigger/", {
    params: { path },
    body: { payload, if_running: "queue" },
  }),
);
same(fired.job?.payload, payload);
const jobs = told(await client.GET("/api/v1/jobs/", { params: { query: { schedule_id: made.id, origin: "manual" } } }));
same(jobs.items.map((job) => job.id), [fired.job?.id]);
told(await client.GET("/api/v1/schedules/{schedule_id}/why/", { params: { path } }));

const batch = told(await client.POST("/api/v1/schedules/batch/", { body: { schedules: [body, { cron: "never" }] } }));
if (typeof batch === "string") throw new Error("only a batch of lines is answered in lines");
same(batch.items.map((result) => result.problem?.status ?? null), [null, 422]);

told(await client.DELETE("/api/v1/schedules/{schedule_id}/", { params: { path } }));
const gone = await client.GET("/api/v1/schedules/{schedule_id}/", { params: { path } });
same([gone.response.status, gone.error?.detail], [404, "Scheduled job not found."]);

// Each of these is a mistake that the compiler finds.
// @ts-expect-error: the key is misspelt
const misspelt: components["schemas"]["ScheduleBody"] = { crn: "0 2 * * *" };
// @ts-expect-error: not one of the words
const strange: components["schemas"]["ScheduleBody"] = { if_running: "wait" };
// @ts-expect-error: no such field
client.GET("/api/v1/schedules/", { params: { query: { fields: ["nam"] } } });
