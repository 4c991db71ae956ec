package config

import "time"

//go:generate go test -count=1 -run ^TestGenerated$ . -write

// Config is the configuration of the stage. Its fields are the only definition of each key,
// with type, default, values and description: the decoder and the checks read the tags, and
// default.yaml, schema.json and docs/configuration.md are generated from the tags and these
// comments.
//
// The tags are mapstructure's and words of JSON Schema: default, enum, minimum, maximum,
// pattern, minLength, and not for one refused value. The tag want describes a pattern in words;
// form names a pattern of form.go. The tag flag is the flag that overrides the key, in commands
// with this flag. The tag alone names a set of keys; at most one of them may have a value.
//
// Config holds no resources.
type Config struct {
	// Name of the job, and prefix of its NATS streams and subjects.
	Job string `mapstructure:"job" default:"eusn" form:"job" flag:"job"`
	// Path of the trained model: a file written by "eusn-stream train" or
	// "eusn-stream demo".
	Model string `mapstructure:"model" default:"model.safetensors" minLength:"1" want:"the path of a model file" flag:"model"`
	// How to reach a NATS server.
	NATS NATS `mapstructure:"nats"`
	// The embedded NATS server, used if nats.url is empty.
	Server Server `mapstructure:"server"`
	// The input, and how much of it is stored.
	Input Input `mapstructure:"input"`
	// How much of the output is stored.
	Output Output `mapstructure:"output"`
	// Dead letters: copies of unusable messages, with the reason. The oldest are deleted first.
	// The input keeps the originals until they are deleted there.
	DeadLetters DeadLetters `mapstructure:"dead_letters"`
	// Settings of the stage's processing.
	Stage Stage `mapstructure:"stage"`
	// Samples over MQTT, HTTP, line protocol and field buses (docs/gateway.md), for
	// "eusn-stream gateway", and for "eusn-stream run" if an input is configured.
	Gateway Gateway `mapstructure:"gateway"`
	// Alarms (docs/alarms.md), for "eusn-stream alarms run", and for "eusn-stream run" if rules
	// or a receiver are configured.
	Alarms Alarms `mapstructure:"alarms"`
	// The log on standard error.
	Log Log `mapstructure:"log"`
	// The live page (docs/page.md), metrics for Prometheus and health checks, over HTTP: /,
	// /metrics, /healthz and /readyz (docs/metrics.md). Without the keys below, every client of
	// the address can read everything. Changed files are reread.
	Metrics Metrics `mapstructure:"metrics"`
	// Traces, sent to a collector of OpenTelemetry (docs/traces.md): the time of a message in
	// waiting, computing and storing, from its sender to its prediction. For "run" and
	// "gateway".
	Traces Traces `mapstructure:"traces"`

	// File is the name of the file; empty without a file. It is not a key.
	File string `mapstructure:"-"`
	// InFile lists the keys with a value different from the default in the file. It is not a
	// key.
	InFile []string `mapstructure:"-"`
	// set are the keys that IsSet reports.
	set map[string]bool `mapstructure:"-"`
}

// IsSet reports whether a flag, an environment variable or the file sets a key.
func (c *Config) IsSet(key string) bool { return c.set[key] }

// TLS is the TLS configuration of a connection, or of an address to listen on.
type TLS struct {
	// Path of the certificates of authorities, PEM: one of them must have signed the other
	// side's certificate. Empty: the system's authorities for a connection; no client
	// certificates at an address to listen on.
	CA string `mapstructure:"ca" default:""`
	// Path of this side's certificate, PEM. Requires key. "eusn-stream secure init"
	// creates one for an address to listen on.
	Cert string `mapstructure:"cert" default:""`
	// Path of the certificate's key, PEM.
	Key string `mapstructure:"key" default:""`
}

// NATS configures the connection to a NATS server.
type NATS struct {
	// URL of the NATS server, such as nats://host:4222, or several URLs separated by commas.
	// Empty: NATS_URL, or the selected context of the nats command (nats context); without both,
	// or with a configured server.dir, the embedded server.
	URL string `mapstructure:"url" default:"" flag:"nats-url"`
	// Login with a credentials file (JWT and seed): its path. Set at most one of creds, nkey,
	// user and token.
	Creds string `mapstructure:"creds" default:"" alone:"login"`
	// Login with an nkey: the path of its seed file.
	NKey string `mapstructure:"nkey" default:"" alone:"login"`
	// Login with a name and a password: the name.
	User string `mapstructure:"user" default:"" alone:"login"`
	// The password of user. Set it as an environment variable rather than in a file.
	Password string `mapstructure:"password" default:""`
	// Login with a token. Set it as an environment variable rather than in a
	// file.
	Token string `mapstructure:"token" default:"" alone:"login"`
	// Start TLS before the server's greeting. The server needs the same setting.
	TLSFirst bool `mapstructure:"tls_first" default:"false"`
	// Prefix of reply subjects, for an account without access to _INBOX. Empty: _INBOX.
	InboxPrefix string `mapstructure:"inbox_prefix" default:""`
	// Replicas of each NATS stream of the job, used at their creation; 3 on a cluster.
	Replicas int `mapstructure:"replicas" default:"1" minimum:"1" maximum:"5"`
	// TLS to the server.
	TLS TLS `mapstructure:"tls"`
}

// Server configures the embedded server.
type Server struct {
	// Directory for the server's streams. Only one process at a time can use it. Only its owner
	// can read it.
	Dir string `mapstructure:"dir" default:"eusn-data" flag:"dir"`
	// Address to listen on: 127.0.0.1, an address of this machine, or 0.0.0.0 for all
	// addresses, including IPv6. Other machines can reach every address except 127.0.0.1,
	// localhost and ::1: then the server requires tls.cert, tls.key and users. "eusn-stream
	// secure init" creates them.
	Listen string `mapstructure:"listen" default:"127.0.0.1" form:"host"`
	// TCP port of the server. 0: do not listen, only this process can connect. -1: any free
	// port.
	Port int `mapstructure:"port" default:"4222" minimum:"-1" maximum:"65535" flag:"port"`
	// Path of the file of users: one line per user, with name, role and bcrypt hash of the
	// password (docs/secure.md). Empty: no login, only from this machine.
	Users string `mapstructure:"users" default:""`
	// Address for NATS over WebSocket, such as 127.0.0.1:8080. It uses the server's TLS and
	// users. Users are required even on 127.0.0.1, because web pages can use WebSocket. Empty:
	// no WebSocket.
	WebSocket string `mapstructure:"websocket" default:"" form:"address,optional"`
	// Origins of web pages with access to websocket, separated by commas, such as
	// https://plant.example. Empty: pages of the same host and port.
	WebSocketOrigins string `mapstructure:"websocket_origins" default:"" pattern:"^$|^https?://[^/, ]+(,https?://[^/, ]+)*$" want:"origins joined by commas, such as https://plant.example,http://localhost:3000, or nothing"`
	// When the server calls fsync. default: every two minutes. always: before each
	// acknowledgement, which is slower and survives a power failure.
	Sync string `mapstructure:"sync" default:"default" enum:"default,always" flag:"sync"`
	// URL of a central NATS server, such as tls://site:password@hub.example:7422: this server
	// becomes its leaf node, continues to work while the central server is unreachable, and the
	// central server mirrors data from it. The JetStream domain is the job's name
	// (docs/services.md, An edge box). With a password, set this key as an environment
	// variable, EUSN_SERVER_HUB. Empty: no central server.
	Hub string `mapstructure:"hub" default:""`
	// TLS of the server's addresses.
	TLS TLS `mapstructure:"tls"`
	// TLS to the central server (hub).
	HubTLS TLS `mapstructure:"hub_tls"`
}

// SyncAlways is a value of server.sync.
const SyncAlways = "always"

// Input configures the input.
type Input struct {
	// Subject of the producers' messages. The parts that match its wildcards are the key: the
	// id of a stream, or of a gateway whose messages have a stream_id column. A wildcard is a
	// token "*", a name in braces, or ">" at the end for all remaining tokens:
	// plant.{site}.line.{line}.sensor.{sensor}, plant.> Separate several subjects by a blank;
	// then the whole subject is the key.
	Subject string `mapstructure:"subject" default:"sensors.*" form:"subject" flag:"subject"`
	// Name of another job whose input this job reads: the other job defines subject and
	// partitions, and nothing is stored twice (docs/second-job.md). Empty: the job has its own
	// input.
	Job string `mapstructure:"job" default:"" form:"job,optional" want:"the name of another job, or nothing" flag:"input-job"`
	// Start of a new job in the input of another job: beginning, now, or a time such as
	// 2026-01-31T08:00:00Z. An existing job continues at its position.
	From string `mapstructure:"from" default:"beginning" form:"beginning" flag:"input-from"`
	// Keys to read: patterns, separated by commas, with * for any characters, such as pump*,
	// A.line.*. Messages with other keys become dead letters, and the gateway refuses them.
	// Empty: all keys.
	Keys string `mapstructure:"keys" default:""`
	// Format of messages. auto: detected from the first bytes of each message: Arrow, JSON, CSV
	// or Influx line protocol; an existing job keeps its own format. senml: RFC 8428. raw: bare
	// numbers. The keys from this one to raw_type belong to the job and cannot change later
	// (docs/formats.md).
	Format string `mapstructure:"format" default:"auto" enum:"auto,arrow,json,csv,influx,senml,raw"`
	// Position of each channel of the model in a message, if it differs from the channel's
	// name: c0: $.axis.x in JSON, c0: column in CSV, c0: field in line protocol, c0: "[0]" by
	// position. A scale and an offset may follow: $.t * 0.1 - 40. Not for Arrow.
	Channels Mapping `mapstructure:"channels" default:"{}" form:"scaled source"`
	// Path of the array of rows in a JSON message, such as $.samples. Empty: the message is a
	// row, or an array of rows.
	Rows string `mapstructure:"rows" default:"" form:"source,optional"`
	// Position of a row's time. Empty: at ts, if present. Not for Arrow.
	Time string `mapstructure:"time" default:"" form:"source,optional"`
	// Unit of numeric times since 1970. Times as text are RFC 3339.
	TimeUnit string `mapstructure:"time_unit" default:"ns" enum:"ns,us,ms,s"`
	// Time between two rows of a JSON message with arrays of samples and one time, the time of
	// the first row. 0s: such a message becomes a dead letter.
	TimeStep time.Duration `mapstructure:"time_step" default:"0s" minimum:"0s"`
	// Position of a row's stream id. Empty: at stream_id, if present. Not for Arrow.
	Stream string `mapstructure:"stream" default:"" form:"source,optional"`
	// Position of a row's end mark. Empty: at end, if present. Not for Arrow.
	End string `mapstructure:"end" default:"" form:"source,optional"`
	// Separator of the cells in a CSV line: one character.
	CSVSeparator string `mapstructure:"csv_separator" default:"," pattern:"^[,;|\\t]$" want:"a comma, a semicolon, a bar or a tab, in quotes"`
	// Type of bare numbers (format raw): float, signed or unsigned, bits, byte order.
	RawType string `mapstructure:"raw_type" default:"f32le" enum:"f32le,f32be,f64le,f64be,i8,u8,i16le,i16be,u16le,u16be,i32le,i32be,u32le,u32be"`
	// What to do with a sample that is null, NaN or infinite. reject: the
	// message becomes a dead letter. hold: use the previous value of the stream.
	// zero: use 0.
	NonFinite string `mapstructure:"non_finite" default:"reject" enum:"reject,hold,zero" flag:"non-finite"`
	// Maximum difference in percent between the sampling rate of a sequence and the rate of the
	// model's training; beyond it, predictions carry the flag rate. The rate is measured if the
	// model has a rate and every sample has a time (ts). -1: the flag is never set.
	RateTolerance int `mapstructure:"rate_tolerance" default:"5" minimum:"-1" maximum:"100" not:"0"`
	// Maximum number of messages of a key that wait for a message with a lower number, before
	// this message counts as missing. -1: no waiting, every gap counts at once.
	Reorder int `mapstructure:"reorder" default:"16" maximum:"65536" not:"0"`
	// Memory for all waiting messages of a partition.
	ReorderBytes Bytes `mapstructure:"reorder_bytes" default:"8MiB" minimum:"1B" maximum:"1GiB"`
	// Maximum size of a message, including headers. Larger messages are refused. A server with
	// default settings accepts 1MiB, including the headers of a dead letter.
	MaxMessage Bytes `mapstructure:"max_message" default:"1008KiB" minimum:"1KiB" maximum:"64MiB"`
	// Older input is deleted. 0s: never deleted, so that a restart can rebuild every state.
	MaxAge time.Duration `mapstructure:"max_age" default:"0s" minimum:"0s"`
	// Maximum size of the stored input; beyond it, producers are refused. 0: no limit. -1:
	// beyond a fifth of the disk, the oldest input that no job needs is deleted.
	MaxBytes Bytes `mapstructure:"max_bytes" default:"-1" minimum:"-1"`
}

// Beginning is a value of input.from.
const Beginning = "beginning"

// Output limits the stored output.
type Output struct {
	// Number of stored prediction messages per partition. 0: all, until the disk is full. -1:
	// beyond a fifth of the disk, the oldest are deleted (docs/operations.md, Disk).
	Keep int64 `mapstructure:"keep" default:"-1" minimum:"-1"`
	// Fraction of predictions that also store their features, for "learn" when the samples are
	// deleted (docs/learn.md): 100 is one in a hundred, 1 is all. 0: none. Use the same value
	// for all workers of a job.
	FeaturesOneIn int `mapstructure:"features_one_in" default:"0" minimum:"0" maximum:"1000000"`
}

// DeadLetters limits the stored dead letters.
type DeadLetters struct {
	// Number of stored dead letters, within a fifth of the disk. -1: all, until the disk is
	// full.
	Keep int64 `mapstructure:"keep" default:"100000" not:"0"`
}

// Stage configures the processing of the stage.
type Stage struct {
	// Number of partitions of the job. The number assigns keys to partitions, so only
	// "eusn-stream job resize" can change it. 0: the job's existing number; a new job gets 16,
	// or 8 with the embedded server.
	Partitions int `mapstructure:"partitions" default:"0" minimum:"0" maximum:"4096" flag:"partitions"`
	// Number of parallel engines, at most one per partition. 0: one per core.
	Shards int `mapstructure:"shards" default:"0" minimum:"0" maximum:"1024" flag:"shards"`
	// Engine for computing. auto: a GPU if available, otherwise the fastest engine of this CPU.
	// All engines give the same bits, except gpu-3xtf32 and gpu-2xtf32 (docs/gpu.md).
	Engine string `mapstructure:"engine" default:"auto" enum:"auto,avx512,avx2,neon,generic,gpu,gpu-3xtf32,gpu-2xtf32" flag:"engine"`
	// Maximum rows of a batch. A batch also closes after latency.
	Rows int `mapstructure:"rows" default:"32000" minimum:"1" maximum:"16777216"`
	// Maximum time from a batch's first message until it closes, or up to four times as long
	// while the previous batch is not committed. Negative: close as soon as no message is
	// waiting.
	Latency time.Duration `mapstructure:"latency" default:"5ms" maximum:"1m" not:"0s"`
	// States in the memory of a shard, one per open sequence. Beyond it, the states used least
	// recently are stored, and reloaded when needed. If this number of states of all shards
	// needs more than half of the memory, a CPU engine holds fewer, and the log reports their
	// number.
	MaxSlots int `mapstructure:"max_slots" default:"65536" minimum:"1" maximum:"268435456"`
	// Streams remembered per partition. Beyond it, one of the streams with the longest silence
	// is forgotten (docs/operations.md, New streams).
	MaxStreams int `mapstructure:"max_streams" default:"16384" minimum:"1" maximum:"67108864"`
	// Silence of a stream after which its open sequence ends. 0s: only producers end sequences.
	Idle time.Duration `mapstructure:"idle" default:"0s" minimum:"0s"`
	// Silence of a stream after which the stream is forgotten, with its message numbers. Not
	// shorter than idle. 0s: streams are forgotten only beyond max_streams.
	Forget time.Duration `mapstructure:"forget" default:"720h" minimum:"0s"`
	// Name of the model's predicting readout. Empty: the first readout.
	Readout string `mapstructure:"readout" default:""`
	// Messages between two snapshots of a partition's state, at most snapshot_every apart. A
	// restart replays the later messages. While a shard has more than 64 MiB of states in
	// transit to the server, both limits double.
	SnapshotMessages int `mapstructure:"snapshot_messages" default:"4096" minimum:"1" maximum:"1073741824"`
	// Time between two snapshots of a partition's state, at most snapshot_messages apart.
	SnapshotEvery time.Duration `mapstructure:"snapshot_every" default:"30s" minimum:"1ns"`
	// Time without an answer after which a worker loses its partitions. Use the same value for
	// all workers of a job.
	Lease time.Duration `mapstructure:"lease" default:"3s" minimum:"200ms" maximum:"2m"`
	// Maximum wait of a stop for the last commit.
	StopTimeout time.Duration `mapstructure:"stop_timeout" default:"10s" minimum:"1ns"`
}

// Alarms configures alarm rules and their notifications.
type Alarms struct {
	// Rules by name: a condition, then clauses: {imbalance: class
	// imbalance >= 0.8, hold 10m}. Conditions: class C|D >= P, flag F|G, novel P,
	// value|low|high > X, input N level > X, drift probability|score|novelty|inputs|interval|class C, silent T.
	// Clauses: K of N, clear below Q, clear above Q, clear after M, between N, shift D, hold T,
	// quiet 22:00-06:00, streams S, by "REGEXP", only CONDITION, unless CONDITION, accept T, worse F, final.
	Rules Mapping `mapstructure:"rules" default:"{}" flag:"alarm-rules" pattern:"^(class|flag|novel|value|low|high|input|drift|silent)\\s" want:"rules with a text each, such as {imbalance: \"class imbalance >= 0.8, 3 of 5\", dead: flag flat, silent: silent 10m}"`
	// URL to post each event to, at least once and in order. Empty: no webhook.
	Webhook string `mapstructure:"webhook" default:"" pattern:"^$|^https?://[^ ]+$" want:"a URL such as https://host/path, or nothing"`
	// Secret for signing the posts (HMAC-SHA256). Set it as an environment variable rather than
	// in a file.
	WebhookSecret string `mapstructure:"webhook_secret" default:""`
	// URL of Prometheus' Alertmanager (0.16 or later), for repeated reports of active alarms;
	// all URLs of a cluster, separated by commas. With a user and a password in it, set this
	// key as an environment variable. Empty: no Alertmanager.
	Alertmanager string `mapstructure:"alertmanager" default:"" pattern:"^$|^https?://[^ ,?#]+(,https?://[^ ,?#]+)*$" want:"URLs such as http://host:9093, with commas between, or nothing"`
	// Labels for Alertmanager in addition to alertname (the rule), job and key: for all rules
	// under the label's name, for one rule under RULE/LABEL.
	AlertmanagerLabels Mapping `mapstructure:"alertmanager_labels" default:"{}" pattern:"." want:"labels with a text each, such as {severity: warning, imbalance/severity: critical}"`
	// MQTT broker for publishing each event with QoS 1, at least once and in order:
	// tcp://host:1883, ssl://host:8883, ws:// or wss://. Empty: no broker.
	MQTT string `mapstructure:"mqtt" default:"" pattern:"^$|^(tcp|mqtt|ssl|tls|mqtts|ws|wss)://[^ ]+$" want:"a URL such as tcp://host:1883 or ssl://host:8883, or nothing"`
	// Client id at the broker. Empty: eusn-alarms- and the job.
	MQTTID string `mapstructure:"mqtt_id" default:""`
	// User name at the broker.
	MQTTUser string `mapstructure:"mqtt_user" default:""`
	// The password of mqtt_user. Set it as an environment variable rather than in a file.
	MQTTPassword string `mapstructure:"mqtt_password" default:""`
	// Prefix of the topics, PREFIX/JOB/alarm/RULE/KEY.
	MQTTPrefix string `mapstructure:"mqtt_prefix" default:"eusn-stream" pattern:"^[^ $/+#\x00][^+#\x00]*$" want:"words with / between, without + and #, such as plant/alarms"`
	// Publish with retain: the broker keeps the newest event of each alarm for later clients.
	MQTTRetain bool `mapstructure:"mqtt_retain" default:"false"`
	// TLS to webhook, Alertmanager and broker.
	TLS TLS `mapstructure:"tls"`
}

// Log configures the log.
type Log struct {
	// Minimum level of log lines.
	Level string `mapstructure:"level" default:"info" enum:"debug,info,warn,error"`
	// json: every line on standard error is JSON, including hints and errors. Set
	// EUSN_LOG_FORMAT=json to apply this before the file is read.
	Format string `mapstructure:"format" default:"text" enum:"text,json"`
}

// IsDefaultAddress reports whether metrics use the default address, which several programs of
// a machine share: only the first of them listens there.
func (m Metrics) IsDefaultAddress() bool { return m.Listen == "127.0.0.1:9464" }

// Metrics configures metrics, health checks and the live page.
type Metrics struct {
	// Address to listen on. Port 0: any free port. Empty: off. The default is for "run".
	Listen string `mapstructure:"listen" default:"127.0.0.1:9464" form:"address,optional" flag:"metrics-listen"`
	// Path of a file of users for a login with name and password: one line name:hash per user,
	// as written by htpasswd -B (bcrypt). Empty: no users.
	Users string `mapstructure:"users" default:""`
	// Path of a file of tokens for programs (Authorization: Bearer), one per line, each at
	// least 16 characters. Without users and token_file, there is no login.
	TokenFile string `mapstructure:"token_file" default:""`
	// Answer /healthz and /readyz without login and client certificate, for an orchestrator
	// without both. /readyz names partitions and their faults.
	OpenHealth bool `mapstructure:"open_health" default:"false"`
	// Answer other machines without a login and in clear text. Set it only in a network where
	// you trust all users.
	Insecure bool `mapstructure:"insecure" default:"false"`
	// TLS of the address.
	TLS TLS `mapstructure:"tls"`
}

// Traces configures the destination and the number of traces.
type Traces struct {
	// URL of the collector for OTLP over HTTP: http://host:4318 or https://host:4318. Without a
	// path, /v1/traces is added. Empty: off.
	Endpoint string `mapstructure:"endpoint" default:"" pattern:"^$|^https?://[^\\s/?#@]+(/[^\\s?#]*)?$" want:"a URL such as http://127.0.0.1:4318, without a name, a password and a query (headers_file takes what logs in), or nothing"`
	// Traced fraction of messages without their own decision (header traceparent): 1000 is one
	// in a thousand, 1 is all. 0: none.
	SampleOneIn int `mapstructure:"sample_one_in" default:"1000" minimum:"0" maximum:"1000000000"`
	// Maximum number of traced messages per second, from any source. Further messages are not
	// traced, but counted.
	Rate int `mapstructure:"rate" default:"100" minimum:"1" maximum:"1000000"`
	// Path of a file of headers for the collector, one line "Name: value" each, such as
	// "Authorization: Bearer ...". Empty: no headers.
	HeadersFile string `mapstructure:"headers_file" default:""`
	// TLS to the collector.
	TLS TLS `mapstructure:"tls"`
}

// Gateway configures the inputs of a gateway.
type Gateway struct {
	// Address of the gateway's own MQTT broker, such as 127.0.0.1:1883. An address that other
	// machines can reach requires user, password, tls.cert and tls.key, or insecure. Empty: no
	// broker.
	MQTT string `mapstructure:"mqtt" default:"" flag:"mqtt-listen"`
	// Address for HTTP: POST /v1/TOPIC, and POST /write for line protocol. Empty: no HTTP.
	HTTP string `mapstructure:"http" default:"" flag:"http-listen"`
	// Address for Influx line protocol over TCP. There is no login: other machines require
	// insecure. Empty: no TCP.
	TCP string `mapstructure:"tcp" default:"" flag:"tcp-listen"`
	// Address for Influx line protocol over UDP, like tcp. Empty: no UDP.
	UDP string `mapstructure:"udp" default:"" flag:"udp-listen"`
	// Another MQTT broker to receive messages from as a client: tcp://host:1883,
	// ssl://host:8883, ws:// or wss://. Empty: no other broker.
	Broker string `mapstructure:"broker" default:"" flag:"broker"`
	// Client id at the other broker, which stores the gateway's session under this id: use a
	// different id for each gateway.
	BrokerID string `mapstructure:"broker_id" default:"eusn-gateway" minLength:"1" want:"a client id"`
	// User name at the other broker.
	BrokerUser string `mapstructure:"broker_user" default:""`
	// The password of broker_user. Set it as an environment variable rather than in a file.
	BrokerPassword string `mapstructure:"broker_password" default:""`
	// Topics with a stream, as MQTT patterns, separated by commas. The key of a stream is the
	// parts that match + and #, joined by /.
	Topics string `mapstructure:"topics" default:"sensors/+" minLength:"1" want:"patterns such as plant/+/sensor/+" flag:"topics"`
	// Format of the devices' messages. auto: detected from the first bytes of each message.
	// input.* configures the positions of the channels.
	Format string `mapstructure:"format" default:"auto" enum:"auto,arrow,json,csv,influx,senml,raw"`
	// Directory for batches until the server acknowledges them. Only one gateway at a time can
	// use it.
	Outbox string `mapstructure:"outbox" default:"eusn-gateway" minLength:"1" want:"the path of a directory" flag:"outbox"`
	// Maximum size of the outbox; beyond it, the gateway accepts no messages.
	OutboxBytes Bytes `mapstructure:"outbox_bytes" default:"1GiB" minimum:"1MiB"`
	// Maximum wait of a sample for other samples of its stream.
	Latency time.Duration `mapstructure:"latency" default:"20ms" minimum:"1ms" maximum:"1m"`
	// Maximum size of a device's message.
	MaxMessage Bytes `mapstructure:"max_message" default:"256KiB" minimum:"1KiB" maximum:"64MiB"`
	// User name of devices over MQTT and HTTP. Empty: no login.
	User string `mapstructure:"user" default:""`
	// The password of user. Set it as an environment variable rather than in a file.
	Password string `mapstructure:"password" default:""`
	// Accept messages from other machines without a login and in clear text. Set it only in a
	// network where you trust all users.
	Insecure bool `mapstructure:"insecure" default:"false"`
	// Maximum number of streams per minute that are new to the input, from one address. Further
	// new streams are refused. UDP counts as one address. 0: no limit.
	NewStreams int `mapstructure:"new_streams" default:"1000" minimum:"0"`
	// Host names for HTTP without a login (plant.example), and origins of web pages that may
	// send (https://dash.example), separated by commas. IP addresses, localhost and names
	// without a dot are always accepted.
	Hosts string `mapstructure:"hosts" default:""`
	// Each message has one value: the last level of its key is the channel.
	Values bool `mapstructure:"values" default:"false"`
	// Time between two samples of a field bus: each sample has the values known at its time.
	// 0s: one sample per source time in a message, or per poll.
	Period time.Duration `mapstructure:"period" default:"0s" minimum:"0s"`
	// TLS of mqtt and http.
	TLS TLS `mapstructure:"tls"`
	// TLS to the other broker (broker).
	BrokerTLS TLS `mapstructure:"broker_tls"`
	// Sparkplug B (docs/fieldbus.md), over mqtt or broker.
	Sparkplug Sparkplug `mapstructure:"sparkplug"`
	// An OPC UA server (docs/fieldbus.md).
	OPCUA OPCUA `mapstructure:"opcua"`
	// Modbus TCP servers (docs/fieldbus.md).
	Modbus Modbus `mapstructure:"modbus"`
}

// Sparkplug configures the edge nodes of Sparkplug B.
type Sparkplug struct {
	// Groups of Sparkplug B to accept over the gateway's MQTT, separated by commas; + for all.
	// Empty: topics of Sparkplug B are ordinary topics.
	Groups string `mapstructure:"groups" default:"" flag:"sparkplug"`
	// A death (NDEATH, DDEATH) ends the open sequence of each affected stream. By default it
	// does not, because a node without a connection to its broker has not stopped its machine.
	End bool `mapstructure:"end" default:"false"`
}

// OPCUA configures the subscription to variables of an OPC UA server.
type OPCUA struct {
	// OPC UA server for subscriptions: opc.tcp://host:4840. Empty: no OPC UA.
	URL string `mapstructure:"url" default:"" flag:"opcua"`
	// Node of each channel of each stream on this server, by the stream's key, a / and the
	// channel.
	Nodes Mapping `mapstructure:"nodes" default:"{}" pattern:"^(ns=[0-9]+;)?[isgb]=.+$" want:"node ids, such as {pump7/x: ns=2;s=Pump7.X}"`
	// Security policy of the connection. auto: the safest policy of the server; None without
	// cert.
	Security string `mapstructure:"security" default:"auto" enum:"auto,None,Basic256Sha256,Aes128_Sha256_RsaOaep,Aes256_Sha256_RsaPss"`
	// Path of the gateway's own certificate, which the server must trust. Requires key.
	Cert string `mapstructure:"cert" default:""`
	// Path of the certificate's key.
	Key string `mapstructure:"key" default:""`
	// Path of the server's certificate: servers with other certificates are refused. Empty: any
	// certificate.
	Trust string `mapstructure:"trust" default:""`
	// Login method. auto: with user, or anonymous if user is empty. certificate: with cert,
	// which the server must assign to a user.
	Login string `mapstructure:"login" default:"auto" enum:"auto,certificate"`
	// User name on the server. Empty: anonymous.
	User string `mapstructure:"user" default:""`
	// The password of user. Set it as an environment variable rather than in a file.
	Password string `mapstructure:"password" default:""`
	// Sampling interval of the server. 0s: the server reports each change, or samples as often
	// as possible.
	Sampling time.Duration `mapstructure:"sampling" default:"100ms" minimum:"0s" maximum:"1h"`
	// Publishing interval of the server.
	Publishing time.Duration `mapstructure:"publishing" default:"500ms" minimum:"1ms" maximum:"1h"`
	// Values per variable that the server queues between two messages. If the queue overflows,
	// the oldest values are lost, and the next sample is flagged.
	Queue int `mapstructure:"queue" default:"100" minimum:"1" maximum:"100000"`
}

// Modbus configures the polling of registers over Modbus TCP.
type Modbus struct {
	// Modbus TCP servers to poll: host:port, separated by commas. Empty: no Modbus.
	Servers string `mapstructure:"servers" default:"" flag:"modbus"`
	// Register of each channel of each stream, by the stream's key, a / and the channel. A
	// register of another server than the first begins with the server's address and a /.
	Registers Mapping `mapstructure:"registers" default:"{}" form:"register"`
	// Unit of registers without a unit.
	Unit int `mapstructure:"unit" default:"1" minimum:"0" maximum:"255"`
	// Time between two polls.
	Interval time.Duration `mapstructure:"interval" default:"100ms" minimum:"1ms" maximum:"1h"`
	// Timeout of a request.
	Timeout time.Duration `mapstructure:"timeout" default:"1s" minimum:"10ms" maximum:"1m"`
}
