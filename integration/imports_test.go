package integration

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/eusn-stream/eusn-stream/"

// graph is the allowed imports inside the project, each with the reason. Packages under
// an internal folder belong to the package above, unless they have their own rule.
var graph = map[string]struct {
	may []string
	why string
}{
	"internal/canon":                  {nil, "the arithmetic imports nothing, so that everything can import it"},
	"internal/canon/fit":              {[]string{"internal/canon"}, "evaluates its candidates as canon does"},
	"internal/kernel":                 {[]string{"internal/canon"}, "vector instructions: knows neither networks nor readouts"},
	"internal/energy":                 {nil, "counts joules: knows neither experiments nor cards"},
	"internal/listen":                 {nil, "what the clients of a listener may take: knows no protocol"},
	"internal/dirlock":                {nil, "locks and directories: knows nothing that is in them"},
	"internal/durable":                {[]string{"internal/dirlock"}, "files that survive a power failure: knows nothing that is in them"},
	"internal/systemd":                {nil, "what systemd is told: knows no program"},
	"internal/service":                {[]string{"internal/systemd"}, "what the service managers of Linux and Windows are told: knows no program"},
	"internal/webguard":               {nil, "which HTTP requests a server answers: knows no server"},
	"internal/names":                  {nil, "a rule for names: knows nothing that has one"},
	"internal/dense":                  {nil, "matrix products for all that learns: they know neither features nor networks"},
	"readout/novelty":                 {[]string{"internal/canon"}, "a detector sees features, never a reservoir or a readout, and fits nothing; its scores are canonical arithmetic"},
	"internal/early":                  {[]string{"readout"}, "fits the rule of early decisions: knows no reservoir"},
	"readout/outcome":                 {nil, "what a readout answers, as data: knows neither a readout nor who writes it"},
	"internal/abstain":                {[]string{"readout"}, "fits the threshold of answers: knows not where probabilities come from"},
	"internal/adaptive":               {nil, "a walk sees whether labels were in sets: knows neither a readout nor where these come from"},
	"internal/exact":                  {[]string{"internal/dense"}, "sums without rounding: knows neither a readout nor where features come from"},
	"internal/fit":                    {[]string{"internal/abstain", "internal/canon", "internal/dense", "internal/exact", "readout", "internal/adaptive", "internal/quality"}, "fits readouts to features: knows no reservoir; readout does not know it"},
	"internal/detect":                 {[]string{"internal/canon", "internal/dense", "readout/novelty"}, "fits detectors to features: knows neither a reservoir nor a readout"},
	"readout":                         {[]string{"internal/canon", "internal/names", "readout/novelty", "readout/outcome"}, "a readout sees features, never a reservoir, and fits nothing; scores are canonical arithmetic; classes keep the rule for names"},
	"reservoir":                       {[]string{"internal/timeunit", "internal/names", "readout", "readout/novelty", "readout/outcome", "internal/canon"}, "an engine fuses the readout into the step; a model's names keep the rule"},
	"internal/engine":                 {[]string{"internal/canon", "internal/kernel", "readout", "readout/novelty", "reservoir"}, "what engines on CPUs and GPUs share; knows none of them"},
	"internal/judge":                  {[]string{"internal/kernel", "readout", "readout/novelty", "reservoir"}, "scores detectors on vectors; knows an engine's features, and no engine"},
	"reservoir/cpu":                   {[]string{"internal/canon", "internal/engine", "internal/judge", "internal/kernel", "readout", "readout/novelty", "reservoir"}, "engines; they know neither models nor streams"},
	"reservoir/classify":              {[]string{"internal/engine", "internal/fit", "internal/judge", "internal/sequence", "readout", "readout/outcome", "reservoir", "reservoir/cpu"}, "the library for series in memory; knows neither files nor messages"},
	"internal/sequence":               {[]string{"reservoir"}, "applies a policy to a stream's times and marks; sees no value and no state"},
	"internal/monitor":                {[]string{"reservoir", "internal/kernel"}, "holds samples to the training ranges in a model; knows neither streams nor files"},
	"internal/track":                  {[]string{"readout/outcome", "reservoir", "internal/monitor", "internal/sequence"}, "the sequences of one stream, live and offline; knows neither messages nor engines"},
	"internal/dynamics":               {[]string{"reservoir", "internal/engine"}, "what a network's weights and a state's features say of themselves; knows neither streams nor files"},
	"edge":                            {[]string{"readout", "reservoir", "reservoir/cpu", "internal/engine", "internal/canon"}, "writes models as programs for devices; knows neither files nor streams"},
	"gpu":                             {[]string{"gpu/internal/kernels", "readout", "reservoir", "reservoir/cpu", "internal/engine", "internal/canon"}, "drives kernels; knows no stage"},
	"internal/telemetry":              {nil, "reads what GPUs report about themselves; needs no kernel"},
	"gpu/internal/kernels":            {[]string{"readout", "reservoir", "internal/engine", "internal/canon"}, "packs networks and heads for a device; knows no driver"},
	"codec":                           {[]string{"readout/outcome"}, "Arrow bytes in, plain slices out; an answer's fields are outcome's"},
	"internal/formats":                {[]string{"codec"}, "other bytes in, the same slices out: knows no stage, so that a gateway can use it"},
	"offline":                         {[]string{"internal/offline/bridge", "internal/datafile", "internal/durable", "internal/names", "internal/groups", "readout", "internal/adaptive", "readout/novelty", "readout/outcome", "internal/quality", "reservoir", "reservoir/cpu", "reservoir/classify", "internal/timeunit", "internal/judge", "internal/monitor", "internal/sequence", "internal/track", "offline/archive", "internal/fit", "internal/exact", "internal/abstain", "internal/early", "internal/detect"}, "learns from archives and evaluates on them; names keep the rule; a live stage is not its business, but its cuts and its flags are"},
	"offline/archive":                 {[]string{"internal/datafile", "internal/durable", "internal/names", "internal/timeunit"}, "keeps data sets and recordings in files; knows neither networks nor who learns from the data"},
	"internal/imports":                {[]string{"internal/datafile", "internal/names", "internal/offline/embedding", "internal/timeunit", "offline/archive"}, "reads other formats into data sets and recordings; learns nothing but the vectors of words"},
	"internal/discover":               {[]string{"internal/formats", "internal/gateway", "internal/gateway/values", "internal/imports", "internal/names", "offline/archive"}, "proposes the settings of a gateway, and grades channels as imports does; opens no connection"},
	"internal/machine":                {[]string{"offline/archive", "internal/canon"}, "simulates a data set and a recording; canon has the exponential whose bits are the same everywhere"},
	"internal/datafile":               {nil, "limits of data files and the error of their content: knows no format"},
	"internal/timeunit":               {nil, "times that are numbers: knows no file"},
	"internal/offline/bridge":         {[]string{"internal/adaptive", "internal/exact", "internal/fit", "internal/groups", "offline/archive", "reservoir"}, "functions of offline with types that an importable package must not show: calls them without an import of offline"},
	"internal/choose":                 {[]string{"internal/offline/bridge", "offline", "offline/archive", "reservoir"}, "compares settings of a training; reads no file, and its trainings are those of offline"},
	"internal/offline/baseline":       {[]string{"internal/dense", "internal/offline/descent", "internal/canon"}, "trained networks to compare with: knows no data set"},
	"internal/offline/descent":        {[]string{"internal/dense"}, "what baseline and embedding share"},
	"internal/offline/embedding":      {[]string{"internal/dense", "internal/offline/descent"}, "word vectors of texts: knows no network"},
	"internal/paper":                  {[]string{"internal/datafile", "internal/compare", "internal/dirlock", "internal/energy", "internal/engine", "internal/fit", "internal/offline/baseline", "offline", "offline/archive", "readout", "reservoir", "reservoir/cpu"}, "the paper's experiments: what offline trains with, run many times, beside published figures"},
	"internal/quality":                {[]string{"internal/names"}, "figures of predictions: knows neither a readout nor where scores come from; names tell which class is healthy"},
	"internal/groups":                 {[]string{"internal/names"}, "which sequences belong together, and figures by group: knows neither archives nor readouts"},
	"internal/compare":                {nil, "published figures, ranks and differences: knows neither a results file nor a model"},
	"internal/figures":                {[]string{"reservoir"}, "the paper's figures from weights and tables; trains nothing"},
	"internal/report":                 {[]string{"internal/energy", "internal/paper", "internal/compare", "internal/figures"}, "puts results and curves on a page; runs nothing"},
	"internal/pipeline/wire":          {[]string{"codec"}, "names and formats: knows neither a client nor what they are for"},
	"internal/pipeline/state":         {[]string{"codec", "internal/names", "internal/pipeline/wire", "readout/outcome", "reservoir", "internal/engine", "internal/monitor", "internal/sequence", "internal/track"}, "what a message does to a partition: no server, no clock, no engine, no log"},
	"internal/pipeline/store":         {[]string{"internal/natsclient", "internal/pipeline/wire"}, "what a job has stored: snapshots and states are bytes here; knows neither a state nor an engine"},
	"internal/pipeline/stats":         {[]string{"codec", "internal/pipeline/wire", "readout/outcome"}, "counts by reason and flag; reads nothing that works"},
	"internal/pipeline/shard":         {[]string{"codec", "internal/formats", "internal/names", "internal/pipeline/state", "internal/pipeline/stats", "internal/pipeline/store", "internal/pipeline/wire", "internal/trace", "readout", "readout/novelty", "readout/outcome", "reservoir", "internal/judge", "internal/engine", "internal/dynamics", "internal/track"}, "drives state machine and engine, and stores states that find no slot; sees its owner through an interface"},
	"internal/pipeline/owner":         {[]string{"codec", "internal/pipeline/shard", "internal/pipeline/state", "internal/pipeline/stats", "internal/pipeline/store", "internal/pipeline/wire", "internal/natsclient", "internal/trace", "readout", "reservoir"}, "holds one partition at a time: knows no other worker and no assignment"},
	"internal/pipeline/bridge":        {[]string{"codec", "internal/pipeline/shard", "internal/pipeline/store", "internal/pipeline/wire", "internal/trace", "readout"}, "functions of pipeline with types that an importable package must not show: calls them without an import of pipeline"},
	"internal/pipeline/inlog":         {[]string{"internal/pipeline/state", "internal/pipeline/store", "internal/pipeline/wire", "internal/natsclient", "internal/pipeline/shard"}, "reads a job's log beside the stage, and hands it to a shard: knows not what for"},
	"internal/pipeline/record":        {[]string{"codec", "internal/dirlock", "internal/names", "internal/pipeline/inlog", "internal/pipeline/state", "internal/pipeline/wire", "readout/outcome"}, "samples of a log into files, whose form it does not know: no network, no engine; an archive's names keep the rule"},
	"internal/registry":               {[]string{"internal/names", "internal/pipeline/state", "internal/pipeline/store", "internal/pipeline/wire", "readout", "reservoir"}, "the models of a job, by what they are: knows no worker; of the state machine it needs which models share states"},
	"pipeline":                        {[]string{"internal/pipeline/bridge", "internal/errtext", "codec", "internal/formats", "internal/names", "internal/pipeline/owner", "internal/pipeline/shard", "internal/pipeline/state", "internal/pipeline/stats", "internal/pipeline/store", "internal/pipeline/wire", "internal/natsclient", "internal/registry", "internal/trace", "readout", "readout/outcome", "reservoir"}, "a worker: starts shards, shares the partitions with other workers; knows no archive, no device and no configuration file"},
	"internal/operate":                {[]string{"internal/natsclient", "internal/pipeline/bridge", "internal/pipeline/owner", "internal/pipeline/shard", "internal/pipeline/state", "internal/pipeline/stats", "internal/pipeline/store", "internal/pipeline/wire", "internal/registry", "pipeline"}, "changes a whole job from outside: a worker does not know it"},
	"internal/replay":                 {[]string{"internal/pipeline/bridge", "internal/dirlock", "internal/durable", "codec", "internal/formats", "internal/pipeline/inlog", "internal/pipeline/owner", "internal/pipeline/record", "internal/pipeline/shard", "internal/pipeline/state", "internal/pipeline/stats", "internal/pipeline/store", "internal/pipeline/wire", "internal/track", "pipeline", "readout/outcome", "reservoir"}, "what is computed from a job's log beside its workers: publishes nothing"},
	"internal/admin":                  {[]string{"internal/natsclient", "internal/consumer", "internal/pipeline/state", "internal/pipeline/store", "internal/pipeline/wire"}, "looks at a job from outside; needs no stage"},
	"internal/consumer":               {[]string{"codec", "internal/pipeline/wire", "internal/natsclient", "internal/trace"}, "reads what a job puts out; knows no stage"},
	"internal/gateway":                {[]string{"internal/errtext", "codec", "internal/formats", "internal/dirlock", "internal/durable", "internal/listen", "internal/names", "internal/pipeline/wire", "internal/natsclient", "internal/producer", "internal/trace", "reservoir", "internal/engine"}, "publishes what devices send; knows no protocol of theirs; of the reservoir it needs the limit of a sample, of the formats where a line ends"},
	"internal/gateway/mqtt":           {[]string{"internal/listen", "internal/names", "internal/urls", "internal/gateway", "internal/gateway/sparkplug", "internal/trace"}, "MQTT in, messages out: knows no server of ours"},
	"internal/gateway/values":         {[]string{"internal/names", "internal/gateway", "internal/gateway/internal/image"}, "single values in, samples out: opens no connection"},
	"internal/gateway/sparkplug":      {[]string{"internal/names", "internal/gateway", "internal/gateway/internal/image"}, "payloads of Sparkplug B in, samples out: what its topics and births mean; opens no connection"},
	"internal/gateway/internal/image": {[]string{"internal/gateway"}, "values one at a time in, samples out: knows no protocol"},
	"internal/gateway/internal/loop":  {nil, "runs what a client does until it is closed: knows nothing of it"},
	"internal/gateway/modbus":         {[]string{"internal/gateway", "internal/gateway/internal/loop", "internal/gateway/internal/image"}, "registers of a Modbus server in, samples out: knows no server of ours"},
	"internal/gateway/opcua":          {[]string{"internal/urls", "internal/gateway", "internal/gateway/internal/image", "internal/gateway/internal/loop"}, "values of an OPC UA server in, samples out: knows no server of ours"},
	"internal/gateway/web":            {[]string{"internal/errtext", "internal/listen", "internal/names", "internal/webguard", "internal/gateway", "internal/trace"}, "HTTP in, messages out: knows no server of ours"},
	"internal/gateway/line":           {[]string{"internal/formats", "internal/gateway"}, "lines in, messages out: knows no server of ours; of the formats it needs where a line ends"},
	"internal/drift":                  {nil, "numbers alone"},
	"internal/alarm":                  {[]string{"codec", "internal/drift", "readout", "readout/novelty", "readout/outcome"}, "rules, and alarms as a function of predictions: knows no server and no clock; a detector names what it reads of inputs; a readout has what rules can judge"},
	"internal/watch":                  {[]string{"codec", "internal/names", "internal/alarm", "internal/consumer", "internal/pipeline/store", "internal/pipeline/wire", "internal/natsclient"}, "keeps the alarms of a job, beside its stage: knows no worker"},
	"internal/notify":                 {[]string{"internal/urls", "internal/alarm", "internal/pipeline/store", "internal/pipeline/wire", "internal/watch"}, "sends a job's alarms elsewhere, from their log: what it waits for holds up nobody"},
	"internal/cli/alarms":             {[]string{"internal/certs", "internal/cli", "internal/cli/configcmd", "internal/cli/server", "internal/cli/term", "internal/config", "internal/service", "internal/alarm", "internal/consumer", "internal/fleet", "internal/natsclient", "internal/notify", "internal/watch", "readout"}, "the commands for alarms; rules are compared with the readouts of a model"},
	"internal/fleet":                  {[]string{"internal/errtext", "internal/certs", "pipeline", "internal/admin", "internal/alarm", "internal/gateway", "internal/pipeline/store", "internal/pipeline/wire", "internal/natsclient", "internal/watch"}, "how a job is: asks its processes and its server, and changes nothing; what works does not wait for it"},
	"internal/natsclient":             {[]string{"internal/urls"}, "opens connections; knows neither a server of ours nor a job"},
	"internal/trace":                  {nil, "where in a trace a message stands, and what a span is: knows no library for traces, so that everything on the way of a message may know it"},
	"internal/traces":                 {[]string{"internal/urls", "internal/trace"}, "sends spans to a collector: knows neither stage nor gateway"},
	"internal/producer":               {[]string{"codec", "internal/pipeline/wire", "internal/natsclient", "internal/trace"}, "sends what a source gives; knows no stage"},
	"internal/labels":                 {[]string{"internal/names", "internal/natsclient", "internal/pipeline/wire"}, "labels of a job: knows no stage and no readout"},
	"internal/learn":                  {[]string{"codec", "internal/consumer", "internal/dirlock", "internal/durable", "internal/exact", "internal/labels", "internal/replay", "pipeline", "readout/outcome", "reservoir"}, "joins labels and sequences of a job, or predictions that carry their features, and keeps features, or exact sums of them: fits nothing"},
	"internal/trial":                  {[]string{"internal/operate", "codec", "pipeline", "internal/consumer", "internal/pipeline/store", "internal/pipeline/wire", "internal/learn", "internal/registry", "reservoir", "internal/replay"}, "judges shadows by what they said, by labels, and by how many predictions the job's records count: joins these by learn's rule; knows no worker"},
	"internal/explain":                {[]string{"codec", "pipeline", "internal/admin", "internal/consumer", "internal/pipeline/state", "internal/pipeline/store", "internal/pipeline/wire", "internal/registry", "readout", "readout/outcome", "reservoir", "internal/engine", "internal/replay"}, "how one prediction came about: what the stage computes again, it reads; publishes nothing"},
	"internal/roles":                  {[]string{"internal/pipeline/wire"}, "who may use which subjects: knows no server"},
	"client":                          {[]string{"codec", "internal/consumer", "internal/labels", "internal/natsclient", "internal/pipeline/wire", "internal/producer", "internal/trace", "readout/outcome"}, "what programs around a stage need of it, in one place; knows no stage"},
	"internal/natsserver":             {[]string{"internal/certs", "internal/dirlock", "internal/durable", "internal/listen", "internal/urls", "internal/natsclient"}, "a server and its directory; asks itself one question at the start, as a client"},
	"internal/page":                   {[]string{"internal/errtext", "codec", "internal/names", "pipeline", "internal/admin", "internal/alarm", "internal/consumer", "internal/fleet", "internal/formats", "internal/labels", "internal/watch", "readout/outcome"}, "shows the machines of a job and its workers, and only reads: predictions, samples, alarms and labels; the stage does not know it; names in a command keep the rule"},
	"internal/metrics":                {[]string{"internal/telemetry", "internal/certs", "internal/listen", "internal/webguard", "pipeline", "internal/gateway", "internal/trace"}, "reads what the stage, a gateway and the GPUs tell; none knows it"},
	"cmd/eusn-stream":                 {[]string{"internal/cli", "internal/cli/root", "internal/service"}, "signals and the exit: all else is a function of arguments"},
	"internal/cli":                    {[]string{"internal/errtext", "internal/datafile", "internal/cli/term", "internal/durable", "reservoir"}, "what all commands share; of the libraries it knows only whose errors are about the content of a file"},
	"internal/cli/term":               {[]string{"internal/names"}, "writes for people; knows no command"},
	"internal/hardware":               {nil, "what the machine is, not what is done with it"},
	"internal/cli/engines":            {[]string{"internal/cli", "internal/config", "gpu", "pipeline", "reservoir", "reservoir/cpu"}, "the only place that chooses between processor and card"},
	"internal/cli/archives":           {[]string{"internal/offline/bridge", "internal/datafile", "internal/cli", "internal/imports", "offline", "offline/archive", "internal/groups", "internal/names", "reservoir"}, "opens files; runs nothing"},
	"internal/cli/models":             {[]string{"edge", "internal/cli", "internal/names", "readout", "readout/novelty", "reservoir", "internal/engine", "internal/dynamics"}, "reads, shows and exports model files"},
	"internal/cli/source":             {[]string{"internal/cli", "pipeline", "internal/producer", "internal/imports", "offline/archive", "internal/pipeline/record"}, "archives as a stage's input, and its input as archives; needs no command"},
	"internal/urls":                   {nil, "reads and shows the URLs of users: every package that has one, so that no message shows a password"},
	"internal/errtext":                {nil, "the text of an error for users: knows no error of ours"},
	"internal/config":                 {[]string{"internal/urls"}, "what the keys are and where their values come from: knows neither commands nor the stage"},
	"internal/cli/configcmd":          {[]string{"internal/pipeline/store", "internal/certs", "internal/cli", "internal/config", "internal/alarm", "internal/notify", "internal/roles", "reservoir"}, "reads and writes configuration files, certificates and users: starts nothing; config check reads alarm rules and outputs as their process does, and the model for what its alarms can be"},
	"internal/certs":                  {nil, "makes and reads certificates: knows no server"},
	"internal/cli/server":             {[]string{"internal/cli/models", "internal/registry", "reservoir", "internal/pipeline/wire", "codec", "internal/formats", "internal/certs", "internal/cli", "internal/cli/configcmd", "internal/config", "pipeline", "internal/admin", "internal/fleet", "internal/natsclient", "internal/natsserver", "internal/roles", "internal/urls"}, "the way of commands to a job's server; knows no command; of the protocol it needs which change of a job is under way"},
	"internal/cli/disk":               {[]string{"internal/cli/server", "internal/config", "internal/admin", "internal/natsclient", "internal/natsserver"}, "how a job fills its server's disk, which run logs and doctor finds"},
	"internal/cli/servicecmd":         {[]string{"internal/cli", "internal/service"}, "the commands for services of Windows"},
	"internal/cli/live":               {[]string{"internal/pipeline/wire", "internal/pipeline/bridge", "reservoir", "internal/datafile", "internal/engine", "codec", "internal/formats", "internal/telemetry", "internal/certs", "internal/cli", "internal/cli/alarms", "internal/cli/archives", "internal/cli/disk", "internal/cli/engines", "internal/cli/models", "internal/cli/server", "internal/cli/source", "internal/cli/term", "internal/config", "internal/hardware", "internal/listen", "internal/metrics", "internal/names", "internal/page", "internal/service", "internal/traces", "internal/webguard", "pipeline", "internal/admin", "internal/consumer", "internal/fleet", "internal/gateway", "internal/gateway/line", "internal/gateway/modbus", "internal/gateway/mqtt", "internal/gateway/opcua", "internal/gateway/sparkplug", "internal/gateway/values", "internal/gateway/web", "internal/labels", "internal/natsclient", "internal/natsserver", "internal/producer", "internal/trace", "internal/watch", "readout/outcome", "internal/imports", "offline/archive", "internal/replay"}, "wires the stage, what feeds it and what reads from it; draws no network, but passes models on"},
	"internal/cli/loop":               {[]string{"internal/offline/bridge", "internal/timeunit", "internal/datafile", "internal/operate", "internal/cli", "internal/cli/engines", "internal/cli/models", "internal/cli/server", "internal/cli/source", "internal/cli/term", "internal/config", "offline", "offline/archive", "internal/groups", "pipeline", "internal/admin", "internal/labels", "internal/learn", "internal/registry", "internal/trial", "reservoir", "internal/pipeline/record", "internal/replay"}, "wires learning beside the stage; runs no stage"},
	"internal/cli/jobcmd":             {[]string{"internal/pipeline/store", "internal/operate", "internal/formats", "gpu", "internal/telemetry", "internal/cli", "internal/cli/disk", "internal/cli/engines", "internal/cli/models", "internal/cli/server", "internal/cli/source", "internal/cli/term", "internal/config", "internal/hardware", "pipeline", "internal/admin", "internal/consumer", "internal/fleet", "internal/natsclient", "internal/natsserver", "internal/registry", "reservoir", "reservoir/cpu", "internal/replay"}, "looks at a job and changes it as a whole; runs no stage"},
	"internal/cli/offlinecmd":         {[]string{"internal/offline/bridge", "internal/choose", "internal/datafile", "codec", "internal/alarm", "gpu", "internal/telemetry", "internal/cli", "internal/cli/archives", "internal/cli/engines", "internal/cli/models", "internal/energy", "internal/hardware", "internal/names", "offline", "offline/archive", "internal/timeunit", "internal/imports", "internal/groups", "internal/paper", "internal/compare", "internal/figures", "internal/report", "readout", "readout/novelty", "internal/quality", "reservoir", "readout/outcome", "internal/fit", "internal/abstain", "internal/detect"}, "wires training and experiments; no server"},
	"internal/cli/bench":              {[]string{"codec", "internal/telemetry", "internal/cli", "internal/cli/engines", "internal/load", "pipeline", "internal/consumer", "internal/natsserver", "readout", "reservoir", "reservoir/cpu", "internal/kernel"}, "measures engines and stage"},
	"internal/cli/plan":               {[]string{"internal/pipeline/store", "internal/cli", "internal/cli/engines", "internal/cli/models", "internal/load", "pipeline", "internal/consumer", "internal/natsclient", "internal/natsserver", "reservoir", "internal/engine"}, "measures a stage for a short time and computes the rest; knows no running job"},
	"internal/load":                   {[]string{"internal/pipeline/wire", "codec", "internal/consumer"}, "publishes and times; knows no command"},
	"internal/cli/past":               {[]string{"internal/operate", "internal/cli", "internal/cli/engines", "internal/cli/jobcmd", "internal/cli/models", "internal/cli/server", "internal/config", "internal/names", "pipeline", "internal/admin", "internal/explain", "reservoir", "internal/replay"}, "what a job has done: the commands; jobcmd compares two states; names that a picture writes are cut as everywhere"},
	"internal/cli/demo":               {[]string{"codec", "internal/cli", "internal/cli/archives", "internal/cli/engines", "internal/cli/models", "internal/cli/offlinecmd", "internal/cli/source", "offline", "offline/archive", "internal/machine", "pipeline", "internal/consumer", "internal/natsserver", "internal/producer", "reservoir"}, "trains and streams in one process, which no other command does"},
	"internal/cli/watchcmd":           {[]string{"internal/certs", "internal/cli", "internal/cli/archives", "internal/cli/engines", "internal/cli/live", "internal/cli/models", "internal/cli/server", "internal/cli/source", "internal/config", "internal/consumer", "internal/discover", "internal/durable", "internal/gateway", "internal/gateway/mqtt", "internal/gateway/opcua", "internal/imports", "internal/names", "internal/natsclient", "internal/pipeline/wire", "internal/producer", "internal/urls", "offline", "offline/archive", "reservoir"}, "finds machines, trains and runs the stage in one process; the parts are those of other commands"},
	"internal/cli/root":               {[]string{"internal/cli", "internal/cli/alarms", "internal/cli/bench", "internal/cli/configcmd", "internal/cli/demo", "internal/cli/engines", "internal/cli/jobcmd", "internal/cli/live", "internal/cli/loop", "internal/cli/models", "internal/cli/offlinecmd", "internal/cli/past", "internal/cli/plan", "internal/cli/servicecmd", "internal/cli/term", "internal/cli/watchcmd", "internal/datafile", "internal/groups", "internal/imports", "internal/labels", "internal/pipeline/store", "internal/registry", "internal/config", "reservoir"}, "puts the commands together, and completes names of banks and of forms of tables; adds commands to errors of libraries; flags refuse the numbers that configuration files refuse"},
	"integration":                     {[]string{"codec", "internal/formats", "offline", "pipeline", "internal/natsserver", "readout", "reservoir"}, "tests of everything together"},

	// Packages imported only by tests: see testSupport.
	"internal/testing/clitest":      {[]string{"internal/cli", "internal/cli/root", "internal/testing/pipelinetest", "pipeline", "internal/consumer", "internal/pipeline/store", "internal/natsclient"}, "runs the whole program in tests"},
	"internal/testing/planttest":    {[]string{"internal/cli/root", "internal/testing/clitest", "internal/natsclient", "internal/natsserver"}, "runs the program and its server in processes that tests kill"},
	"internal/testing/enginetest":   {[]string{"readout", "readout/novelty", "reservoir", "internal/engine", "internal/canon"}, "holds every engine to the contract"},
	"internal/testing/sequencetest": {[]string{"reservoir"}, "the definition that cuts are held to"},
	"internal/testing/archivetest":  {nil, "files as other tools write them: knows no package, so that the tests of archives can use it"},
	"internal/testing/alarmtest":    {[]string{"codec", "internal/alarm", "readout/outcome"}, "what alarms must be: of package alarm only the form of events"},
	"internal/testing/browser":      {[]string{"internal/testing/parts"}, "drives a browser; knows no page"},
	"internal/testing/parts":        {nil, "ends tests for want of an outside part"},
	"internal/testing/pipelinetest": {[]string{"codec", "internal/natsserver", "readout", "readout/novelty", "readout/outcome", "reservoir", "reservoir/cpu", "internal/testing/sequencetest"}, "what tests of pipeline and of the packages below it share; imports no stage, so that the stage's own tests can use it"},
	"internal/clang":                {nil, "compiles committed modules; knows them by path"},
	"internal/clang/compile":        {[]string{"internal/clang"}, "the command of go generate"},
	"internal/testing/bochs":        {nil, "boots test binaries on an emulated machine; knows them by path"},
	"internal/testing/bochs/guest":  {nil, "the emulated machine's init: runs what it finds"},
	"internal/testing/ptx":          {[]string{"internal/canon"}, "interprets kernels; knows no driver"},
	"gpu/internal/testing/cudatest": {[]string{"gpu", "internal/testing/ptx"}, "stands in for the driver, which only packages below gpu may open: so it is there"},

	"tools/capacity":         {[]string{"internal/load", "internal/consumer", "internal/natsclient", "internal/natsserver", "reservoir"}, "loads the built program as a plant would, and reads what it took"},
	"tools/picture":          {[]string{"internal/machine", "offline/archive"}, "simulates a machine, then drives the built program as a user would"},
	"tools/dist":             {[]string{"internal/cli", "internal/cli/root", "internal/config", "tools/dist/bom", "tools/dist/man", "tools/dist/pack"}, "makes a release: of the program it knows the commands, for the manual, and the configuration's files"},
	"tools/dist/bom":         {nil, "what a program is made of, read from it: knows no package"},
	"tools/dist/man":         {nil, "manual pages of any commands"},
	"tools/dist/pack":        {nil, "writes packages: knows nothing of what is in them"},
	"tools/dist/schemacheck": {nil, "holds JSON to a schema"},
	"tools/mutants":          {nil, "changes the kernels' assembly and runs their tests, both by path"},
	"tools/simulate":         {nil, "builds and runs the simulation of integration/chaos by path"},
	"tools/typecheck":        {nil, "reads sources by path"},
	"tools/peers/gonum":      {nil, "a peer to compare with shares nothing with us"},
	"tools/peers/recipe":     {[]string{"reservoir", "reservoir/cpu"}, "peers of a bank need its weights, and the engine's features to be held to"},
	"integration/cases":      {nil, "runs the built program from outside; only whether its inputs are there is asked of internal/testing/parts"},
	"integration/plants":     {nil, "runs the commands of docs/plants as main does, and compares the live stage with package offline"},
	"integration/chaos":      {[]string{"codec", "readout", "readout/outcome", "reservoir", "reservoir/cpu"}, "breaks the live stage from outside: it must not share a line with package pipeline"},
	"integration/goldens":    {[]string{"internal/testing", "internal/natsserver"}, "runs the program as main does, so that it does not depend on how packages are cut"},
}

// forbidden are libraries kept out of packages, each with the reason.
var forbidden = []struct {
	library string
	allowed []string
	why     string
}{
	{"github.com/nats-io/", []string{"client", "internal/testing/pipelinetest", "pipeline", "internal/admin", "internal/pipeline/inlog", "internal/pipeline/bridge", "internal/pipeline/owner", "internal/pipeline/record", "internal/pipeline/store", "internal/consumer", "internal/explain", "internal/fleet", "internal/gateway", "internal/labels", "internal/learn", "internal/natsclient", "internal/natsserver", "internal/notify", "internal/operate", "internal/producer", "internal/registry", "internal/replay", "internal/trial", "internal/watch", "internal/cli/alarms", "internal/cli/bench", "internal/cli/demo", "internal/cli/disk", "internal/cli/jobcmd", "internal/cli/live", "internal/cli/loop", "internal/cli/past", "internal/cli/plan", "internal/cli/server", "internal/cli/watchcmd", "internal/load", "internal/page", "internal/testing/clitest", "internal/testing/planttest", "integration", "integration/chaos", "tools/capacity"}, "the live stage and what stands around it speak NATS"},
	{"github.com/apache/arrow/", []string{"codec", "offline", "offline/archive", "internal/testing/archivetest", "integration", "integration/chaos"}, "Arrow types stay behind codec and the archives"},
	{"github.com/go-json-experiment/", []string{"internal/formats"}, "one package reads JSON that comes from outside, by a tokenizer that is in the standard library from Go 1.27 on"},
	{"github.com/gopcua/", []string{"internal/gateway/opcua"}, "one package speaks OPC UA"},
	{"github.com/fxamacker/", []string{"internal/formats"}, "one package reads CBOR"},
	{"google.golang.org/protobuf/", []string{"internal/traces", "internal/gateway/sparkplug"}, "one package reads protobuf, one writes it"},
	{"go.opentelemetry.io/", []string{"internal/traces"}, "one package has OpenTelemetry's SDK; the way of a message sees an interface of ours"},
	{"github.com/influxdata/", []string{"internal/formats"}, "one package reads line protocol"},
	{"github.com/spf13/", []string{"internal/cli", "internal/cli/alarms", "internal/cli/bench", "internal/cli/configcmd", "internal/cli/demo", "internal/cli/jobcmd", "internal/cli/live", "internal/cli/loop", "internal/cli/past", "internal/cli/plan", "internal/cli/server", "internal/cli/models", "internal/cli/offlinecmd", "internal/cli/root", "internal/cli/servicecmd", "internal/cli/watchcmd", "internal/config", "tools/dist/man"}, "flags belong to the commands; internal/config finds values in files, environment and flags"},
	{"gonum.org/v1/gonum", []string{"internal/dense", "internal/fit", "internal/detect", "internal/dynamics", "offline", "internal/paper", "internal/compare", "internal/figures", "tools/peers/gonum"}, "the step needs no linear algebra library"},
	{"github.com/eusn-stream/eusn-stream/internal/offline/baseline", []string{"internal/paper"}, "trained networks are for comparison in experiments only"},
	{"github.com/coreos/", []string{"internal/systemd"}, "one package speaks to systemd"},
	{"github.com/prometheus/", []string{"internal/metrics"}, "one package speaks Prometheus; the stage counts in plain numbers"},
	{"github.com/mochi-mqtt/", []string{"internal/gateway/mqtt"}, "one package speaks MQTT"},
	{"github.com/eclipse/", []string{"internal/gateway/mqtt", "internal/notify"}, "one package takes samples over MQTT, one sends alarms"},
	{"github.com/NVIDIA/", []string{"internal/telemetry"}, "one package speaks NVML, and defines the functions that the binding leaves open"},
	{"github.com/chromedp/", []string{"internal/testing/browser"}, "one package drives a browser, for tests"},
	{"github.com/opencontainers/", []string{"tools/dist/pack"}, "one package writes images, for releases"},
	{"gonum.org/v1/plot", []string{"internal/figures"}, "one package draws"},
}

// testSupport reports whether a package, by its path, is only for tests.
func testSupport(name string) bool {
	return name == "integration" || strings.HasPrefix(name, "integration/") || strings.Contains("/"+name, "/internal/testing/")
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		owner := ruled(name)
		seen[owner] = true
		rule, known := graph[owner]
		if !known {
			t.Errorf("package %s has no rule: say in integration/imports_test.go whom it may import, and why", name)
			continue
		}
		for _, imp := range p.Imports {
			inner, ours := strings.CutPrefix(imp, module)
			target := ruled(inner)
			if ours && target != owner && !slices.Contains(rule.may, target) {
				t.Errorf("%s imports %s: not allowed (%s)", name, inner, rule.why)
			}
			if ours && testSupport(inner) && !testSupport(name) || imp == "testing" && !testSupport(name) {
				t.Errorf("%s imports %s: test support does not ship (it is in internal/testing, or in testing below a package's internal, or in integration)", name, imp)
			}
			for _, f := range forbidden {
				if strings.HasPrefix(imp, f.library) && !slices.Contains(f.allowed, owner) {
					t.Errorf("%s imports %s: not allowed (%s)", name, imp, f.why)
				}
			}
		}
	}
	for owner := range graph {
		if !seen[owner] {
			t.Errorf("the rule for %s speaks of a package that does not exist", owner)
		}
	}
}

// ruled returns the package whose rule applies to a package.
func ruled(name string) string {
	if _, own := graph[name]; own {
		return name
	}
	owner, _, _ := strings.Cut(name, "/internal/")
	return owner
}

type listed struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
