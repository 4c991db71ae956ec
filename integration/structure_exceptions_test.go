package integration

// The exceptions to TestStructure, each with its reason. A ceiling may only be
// lowered; an exception that is not needed any more fails the test.

// cycleExceptions are packages with a larger circle of files.
var cycleExceptions = map[string]limit{
	"offline/bench":     {18, "a run, its results and its models name each other; to be cut where models are compared"},
	"integration/chaos": {19, "a test harness in one piece: scenario, fleet and audit name each other"},
	"offline":           {12, "the readers of each data format and the import that chooses among them"},
	"codec":             {10, "one message's way: frame, schema, plan, fields"},
}

// fieldExceptions are structs with more fields.
var fieldExceptions = map[string]limit{
	"pipeline/internal/state.Stream":   {21, "what a stream remembers, and where its owner has its rows"},
	"internal/config.Input":            {21, "a key each, as the file and its reference list them"},
	"internal/config.Gateway":          {22, "a key each, as the file and its reference list them"},
	"pipeline.Config":                  {28, "a setting each: a table, whose default and check stand together"},
	"pipeline.Stats":                   {50, "a counter each, of those that users read: a table without methods that use two of them"},
	"pipeline/internal/stats.Counters": {46, "the atomics behind pipeline.Stats, one each"},
	"reservoir.worker":                 {28, "every buffer of a tile, so that a call allocates nothing"},
	"reservoir/internal/kernel.Steps":  {22, "the arguments of a kernel in assembly, read by their offsets"},
	"gpu/kernels.Shape":                {22, "the arguments of the GPU kernels, read by their offsets"},
	"gpu.Engine":                       {22, "a device's memory and what was planned for it, allocated once"},
	"offline/report.cellView":          {24, "a column each, as the page's template names them"},
	"integration/chaos.scenario":       {32, "a kind of harm each: a row of the matrix sets a few"},
	"integration/chaos.result":         {29, "a figure each, as the JSON of a run has them"},
}

// mixins are structs with methods that are made to be embedded.
var mixins = map[string]string{
	"sync.Mutex":                     "the standard library's: next to the data that it guards",
	"pipeline/internal/shard.slots":  "where the states of a shard are: the part of it that knows engine and slots, and no partition's course",
	"pipeline/internal/store.bucket": "a bucket of the server's object store: the part that snapshots and models have alike",
	"codec/formats.layout":           "settings with their sources taken apart, which every decoder reads",
	"codec/formats.table":            "a message's rows while they are gathered, the part that the decoders have alike",
	"reservoir.pool":                 "slots and their rows, the part that all CPU engines have alike",
	"reservoir.vectorPool":           "readouts, plan and threads, the part that the engines on vector kernels have alike",
	"offline.cutter":                 "how streams are cut, which a plan and the cutter of a stream both know",
	"offline/bench.Store":            "a results file, written as it is read",
}

// embeddings are the other structs inside structs: "outer: inner".
var embeddings = map[string]string{
	"pipeline/internal/store.unhurried: bytes.Reader":                       "a reader that differs in Read alone",
	"pipeline.connection: github.com/nats-io/nats.go.Conn":                  "NATS's connection and whether it is up: used as a connection",
	"internal/cli/demo.Report: offline.Evaluation":                          "JSON: the evaluation's fields and two more",
	"internal/cli/offlinecmd.importRecording(): offline.RecordingSummary":   "JSON: the summary's fields and the archive's name",
	"reservoir.linear: readout.Linear":                                      "a readout arranged for the kernels: a readout everywhere else",
	"pipeline/registry.Entry: pipeline/registry.Lineage":                    "JSON: what a file does not say stands beside what it says",
	"pipeline/registry.about: pipeline/registry.Lineage":                    "JSON: an entry as it is stored",
	"pipeline/alarm.Evidence: pipeline/alarm.Estimate":                      "JSON: value, low and high are there or are not, all of them",
	"pipeline/explain.Share: pipeline/explain.Part":                         "JSON: a part of the scores, and which features it is of",
	"pipeline/explain.Member: pipeline/explain.Part":                        "likewise",
	"pipeline/explain.OfFeature: pipeline/explain.Part":                     "likewise",
	"internal/cli/loop.listedModel: pipeline/registry.Entry":                "JSON: an entry, and whether the job predicts with it",
	"internal/cli/loop.printEntry(): pipeline/registry.Entry":               "JSON: an entry, and what its model file holds",
	"offline/bench.Store: offline/bench.Results":                            "a results file that is written has all that one that is read has",
	"readout.table: readout.samples":                                        "samples as a solver sees them: raw, and how they are mapped",
	"reservoir.channelStatistics: reservoir.spread":                         "a spread with the least and the greatest value",
	"gpu.open(): gpu/internal/cuda.Context":                                 "a context and its free memory, while one is chosen",
	"pipeline/gateway/mqtt.hook: github.com/mochi-mqtt/server/v2.HookBase":  "the library's hook that does nothing: made to be embedded",
	"internal/metrics.ofGPU: internal/metrics.metric":                       "a metric, and how it is read from a card",
	"integration/chaos.worker: integration/chaos.proc":                      "a process that works",
	"internal/testing/bochs.initramfs: bytes.Buffer":                        "a buffer that knows its format",
	"pipeline/internal/wire.PromoteEvent: pipeline/internal/wire.Promotion": "JSON: the promotion's fields and its partition",
	"internal/cli/loop.printRecorded(): pipeline/internal/record.Done":      "JSON: the counts of a recording and where they are",
}
