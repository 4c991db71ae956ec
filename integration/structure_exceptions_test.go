package integration

// The exceptions to TestStructure, each with its reason. A ceiling may only be lowered;
// an unnecessary exception fails the test.

// cycleExceptions are packages with a larger circle of files.
var cycleExceptions = map[string]limit{
	"integration/chaos": {18, "a test harness in one piece: scenario, fleet and audit name each other"},
}

// fileExceptions are packages with more files.
var fileExceptions = map[string]limit{}

// lineExceptions are functions with more lines.
var lineExceptions = map[string]limit{}

// complexityExceptions are functions with more branches.
var complexityExceptions = map[string]limit{
	"codec.predictionReader.readSchema":                {18, "a parser: a case for each form, a check for each field"},
	"internal/formats.Input.Validate":                  {16, "a parser: a case for each form, a check for each field"},
	"internal/formats.LineScanner.End":                 {22, "a parser: a case for each form, a check for each field"},
	"internal/formats.Looks":                           {18, "a parser: a case for each form, a check for each field"},
	"internal/formats.influxDecoder.readLine":          {16, "a parser: a case for each form, a check for each field"},
	"internal/formats.isDecimal":                       {17, "a parser: a case for each form, a check for each field"},
	"internal/formats.jsonDecoder.readScalar":          {19, "a parser: a case for each form, a check for each field"},
	"internal/formats.senmlDecoder.addRecord":          {24, "a parser: a case for each form, a check for each field"},
	"internal/formats.senmlDecoder.gatherRows":         {17, "a parser: a case for each form, a check for each field"},
	"internal/formats.senmlRecord.setField":            {24, "a parser: a case for each form, a check for each field"},
	"internal/config.Config.rules":                     {17, "a table: a row for each rule"},
	"internal/config.file.readGroup":                   {18, "a parser: a case for each form, a check for each field"},
	"internal/testing/ptx.Kernel.checkLaunch":          {16, "an interpreter: a case for each instruction"},
	"internal/testing/ptx.access.touch":                {21, "an interpreter: a case for each instruction"},
	"internal/testing/ptx.lex":                         {17, "an interpreter: a case for each instruction"},
	"internal/testing/ptx.parser.memory":               {35, "an interpreter: a case for each instruction"},
	"internal/testing/ptx.warp.runGroup":               {18, "an interpreter: a case for each instruction"},
	"internal/alarm.Rule.parseClause":                  {36, "a parser: a case for each form, a check for each field"},
	"internal/gateway/sparkplug.decodeMetric":          {21, "a parser: a case for each form, a check for each field"},
	"internal/gateway/sparkplug.node.findChannels":     {18, "a parser: a case for each form, a check for each field"},
	"internal/gateway/sparkplug.node.handleMessage":    {16, "a parser: a case for each form, a check for each field"},
	"internal/pipeline/store.Committer.ClaimPartition": {24, "a protocol: a case for each state of the record and answer of the server, in order"},
	"internal/pipeline/store.Committer.resolveDoubt":   {26, "a protocol: a case for each state of the record and answer of the server, in order"},
	"internal/pipeline/wire.ParseRecord":               {16, "a parser: a case for each form, a check for each field"},
	"internal/pipeline/wire.parseOne":                  {21, "a parser: a case for each form, a check for each field"},
	"internal/roles.RightsOf":                          {17, "a table: a case for each role"},
	"internal/exact.DecodeSums":                        {20, "a parser: a case for each form, a check for each field"},
	"internal/fit.partHeader.check":                    {28, "a parser: a case for each form, a check for each field"},
	"reservoir.decode":                                 {19, "a parser: a case for each form, a check for each field"},
}

// mixins are structs with methods, made for embedding.
var mixins = map[string]string{
	"internal/replay.jobLog":         "a job whose log is open: the part that all operations on the log have alike",
	"pipeline.Job":                   "what all operations on a job need: a worker has more, and a prepared job is checked",
	"sync.Mutex":                     "the standard library's: next to the data that it guards",
	"internal/pipeline/shard.slots":  "where the states of a shard are: the part of it that knows engine and slots, and no partition's course",
	"internal/pipeline/store.bucket": "a bucket of the server's object store: the part that snapshots and models have alike",
	"readout/outcome.Answer":         "what a readout says of a sequence: the part that all predictions have alike",
	"codec.Prediction":               "an answer and its place: the part that predictions with more about them have alike",
	"internal/formats.layout":        "settings with their sources taken apart, which every decoder reads",
	"internal/formats.table":         "a message's rows while they are gathered, the part that the decoders have alike",
	"reservoir/cpu.pool":             "slots and their rows, the part that all CPU engines have alike",
	"reservoir/cpu.vectorPool":       "readouts, plan and threads, the part that the engines on vector kernels have alike",
	"offline.cutter":                 "how streams are cut, which a plan and the cutter of a stream both know",
	"internal/paper.Store":           "a results file, written as it is read",
}

// embeddings are the other structs inside structs: "outer: inner".
var embeddings = map[string]string{
	"internal/explain.Diff: internal/replay.StatesBetween":                         "JSON: two states and what they differ in",
	"internal/cli/offlinecmd.evaluation: offline.Evaluation":                       "JSON: an evaluation with the effect of labels",
	"offline.cutter: internal/track.Tracker":                                       "the cutter is the tracker of its streams",
	"internal/pipeline/state.Stream: internal/track.Track":                         "a stream is its track, and where its rows and messages are",
	"internal/pipeline/store.unhurried: bytes.Reader":                              "a reader that differs in Read alone",
	"pipeline.connection: github.com/nats-io/nats.go.Conn":                         "NATS's connection and whether it is up: used as a connection",
	"internal/cli/demo.Report: offline.Evaluation":                                 "JSON: the evaluation's fields and two more",
	"internal/cli/offlinecmd.importRecording(): internal/imports.RecordingSummary": "JSON: the summary's fields and the archive's name",
	"reservoir/cpu.linear: readout.Linear":                                         "a readout arranged for the kernels: a readout everywhere else",
	"internal/registry.Entry: internal/registry.Lineage":                           "JSON: what a file does not say stands beside what it says",
	"internal/registry.about: internal/registry.Lineage":                           "JSON: an entry as it is stored",
	"internal/alarm.Evidence: internal/alarm.Estimate":                             "JSON: value, low and high are there or are not, all of them",
	"internal/explain.Share: internal/explain.Part":                                "JSON: a part of the scores, and which features it is of",
	"internal/explain.Member: internal/explain.Part":                               "likewise",
	"internal/explain.FeatureShare: internal/explain.Part":                         "likewise",
	"internal/cli/loop.listedModel: internal/registry.Entry":                       "JSON: an entry, and whether the job predicts with it",
	"internal/cli/loop.printEntry(): internal/registry.Entry":                      "JSON: an entry, and what its model file holds",
	"internal/paper.Store: internal/paper.Results":                                 "a results file that is written has all that one that is read has",
	"internal/fit.table: internal/fit.samples":                                     "samples as a solver sees them: raw, and how they are mapped",
	"reservoir.channelStatistics: reservoir.spread":                                "a spread with the least and the greatest value",
	"gpu.open(): gpu/internal/cuda.Context":                                        "a context and its free memory, while one is chosen",
	"internal/gateway/mqtt.hook: github.com/mochi-mqtt/server/v2.HookBase":         "the library's hook that does nothing: made to be embedded",
	"internal/metrics.ofGPU: internal/metrics.metric":                              "a metric, and how it is read from a card",
	"integration/chaos.worker: integration/chaos.proc":                             "a process that works",
	"internal/testing/bochs.initramfs: bytes.Buffer":                               "a buffer that knows its format",
	"internal/pipeline/wire.PromoteEvent: internal/pipeline/wire.Promotion":        "JSON: the promotion's fields and its partition",
	"internal/cli/loop.printRecorded(): internal/pipeline/record.Done":             "JSON: the counts of a recording and where they are",
}
