package config

import "time"

//go:generate go test -count=1 -run ^TestGenerated$ . -write

// Config is the configuration of the stage. Its fields are the one place that
// names a key, its type, its default, its values and what it does: the decoder
// and the checks read the tags, and default.yaml, schema.json and
// docs/configuration.md are generated from the tags and these comments.
//
// The tags are mapstructure's and words of JSON Schema: default, enum, minimum,
// maximum, pattern, minLength, and not, for one value that is refused. want says
// in words what a pattern wants; form names a pattern of form.go instead. flag is the flag that overrides the key in the
// commands that have it. alone names a set of keys; at most one of them may have
// a value.
//
// Config holds no resources.
type Config struct {
	// Name of the job. It is a prefix of the job's NATS streams and subjects.
	Job string `mapstructure:"job" default:"eusn" form:"job" flag:"job"`
	// Path of the trained model: a file that "eusn-stream offline retrain" or
	// "eusn-stream demo" has written.
	Model string `mapstructure:"model" default:"model.safetensors" minLength:"1" want:"the path of a model file" flag:"model"`
	// How to reach a NATS server.
	NATS NATS `mapstructure:"nats"`
	// The embedded NATS server. It is used when nats.url is empty.
	Server Server `mapstructure:"server"`
	// What comes in, and how much of it is stored. By default only the disk
	// limits the input: 2,000 messages of 3 kB a second are half a terabyte a
	// day. "eusn-stream run" and "eusn-stream doctor" report the rate of your
	// job.
	Input Input `mapstructure:"input"`
	// How much of what goes out is stored.
	Output Output `mapstructure:"output"`
	// Dead letters: copies of messages that could not be used, with the reason.
	// The oldest are dropped first. The input stores the originals until they
	// age out there.
	DeadLetters DeadLetters `mapstructure:"dead_letters"`
	// How the stage works.
	Stage Stage `mapstructure:"stage"`
	// Taking samples over MQTT, HTTP, line protocol and field buses, with "eusn-stream
	// gateway" (docs/gateway.md). The stage does not use it.
	Gateway Gateway `mapstructure:"gateway"`
	// Alarms, with "eusn-stream alarms run" (docs/alarms.md). The stage does not use it.
	Alarms Alarms `mapstructure:"alarms"`
	// What is written to standard error.
	Log Log `mapstructure:"log"`
	// The live page (docs/page.md), metrics for Prometheus and health checks, over HTTP: /,
	// /metrics, /healthz and /readyz (docs/metrics.md). Without the keys below, whoever
	// reaches the address can read all of it. The files are read again when they have
	// changed.
	Metrics Metrics `mapstructure:"metrics"`
	// Traces, sent to a collector of OpenTelemetry (docs/traces.md): how long a message
	// waited, was computed and stored, from its sender to its prediction. For "run" and
	// "gateway".
	Traces Traces `mapstructure:"traces"`

	// InFile are the keys to which the file gives something else than their defaults. It
	// is no key itself.
	InFile []string `mapstructure:"-"`
}

// TLS names the files with which a connection, or an address to listen on, is secured.
type TLS struct {
	// Path of the certificates of authorities, PEM: the certificate of the other side
	// must be from one of them. Empty: for a connection those that the system trusts; at
	// an address to listen on, clients need no certificate.
	CA string `mapstructure:"ca" default:""`
	// Path of the certificate of this side, PEM. It needs key. "eusn-stream config init
	// --secure" makes one for an address to listen on.
	Cert string `mapstructure:"cert" default:""`
	// Path of the key of the certificate, PEM.
	Key string `mapstructure:"key" default:""`
}

// NATS says how to reach a NATS server.
type NATS struct {
	// URL of the NATS server, such as nats://host:4222; several are separated by
	// commas. Empty: start an embedded server.
	URL string `mapstructure:"url" default:"" flag:"nats-url"`
	// Login with a credentials file (JWT and seed): its path. Set at most one of
	// creds, nkey, user and token.
	Creds string `mapstructure:"creds" default:"" alone:"login"`
	// Login with an nkey: the path of its seed file.
	NKey string `mapstructure:"nkey" default:"" alone:"login"`
	// Login with a name and a password: the name.
	User string `mapstructure:"user" default:"" alone:"login"`
	// The password that belongs to user. Set it as an environment variable
	// rather than in a file.
	Password string `mapstructure:"password" default:""`
	// Login with a token. Set it as an environment variable rather than in a
	// file.
	Token string `mapstructure:"token" default:"" alone:"login"`
	// Start TLS before the server's greeting. The server must be set so too.
	TLSFirst bool `mapstructure:"tls_first" default:"false"`
	// Prefix of reply subjects, for an account that may not use _INBOX. Empty:
	// _INBOX.
	InboxPrefix string `mapstructure:"inbox_prefix" default:""`
	// Copies of each of the job's NATS streams. Used when the streams are
	// created; 3 on a cluster.
	Replicas int `mapstructure:"replicas" default:"1" minimum:"1" maximum:"5"`
	// TLS to the server.
	TLS TLS `mapstructure:"tls"`
}

// Server is the embedded server's.
type Server struct {
	// Directory in which the server stores its streams. One process uses it at a
	// time. Only its owner can read it.
	Dir string `mapstructure:"dir" default:"eusn-data" flag:"dir"`
	// Address that the server listens on: 127.0.0.1, an address of this machine,
	// or 0.0.0.0 for all of them, IPv6 included. Others than this machine reach all
	// but 127.0.0.1, localhost and ::1: then the server starts only with
	// tls.cert, tls.key and users. "eusn-stream config init --secure" makes them.
	Listen string `mapstructure:"listen" default:"127.0.0.1" form:"host"`
	// Port of the server. 0: no port, only this process can connect. -1: any free
	// port.
	Port int `mapstructure:"port" default:"4222" minimum:"-1" maximum:"65535" flag:"port"`
	// Path of the file with the users that may connect: a line for each, with name,
	// role and bcrypt hash of the password (docs/secure.md). Empty: anybody on this
	// machine.
	Users string `mapstructure:"users" default:""`
	// Address for NATS over WebSocket, such as 127.0.0.1:8080. TLS and users are
	// those of the server: it needs users, also on 127.0.0.1, because web pages can
	// use it. Empty: none.
	WebSocket string `mapstructure:"websocket" default:"" form:"address,optional"`
	// Origins of the web pages that may use websocket, joined by commas, such as
	// https://plant.example. Empty: pages of the same host and port.
	WebSocketOrigins string `mapstructure:"websocket_origins" default:"" pattern:"^$|^https?://[^/, ]+(,https?://[^/, ]+)*$" want:"origins joined by commas, such as https://plant.example,http://localhost:3000, or nothing"`
	// When the server writes to the disk for good (fsync). default: every two
	// minutes. always: before it acknowledges a message, which is slower and
	// survives a power loss.
	Sync string `mapstructure:"sync" default:"default" enum:"default,always" flag:"sync"`
	// URL of a NATS server at a centre, such as tls://site:password@hub.example:7422:
	// this server is a leaf node of it, works on while the centre is away, and the
	// centre mirrors what it wants to read. The JetStream domain is the job's name
	// (docs/operations.md, An edge box). With a password, set it as an environment
	// variable, EUSN_SERVER_HUB. Empty: no centre.
	Hub string `mapstructure:"hub" default:""`
	// TLS of the server's addresses.
	TLS TLS `mapstructure:"tls"`
	// TLS to the centre (hub).
	HubTLS TLS `mapstructure:"hub_tls"`
}

// SyncAlways is a value of server.sync.
const SyncAlways = "always"

// Input says what comes in.
type Input struct {
	// Subject on which producers publish. What its wildcards stand for is the key:
	// the id of a stream, or of a gateway whose messages have a stream_id column.
	// A wildcard is a token "*", or a name in braces, or ">" at the end for all
	// tokens that follow: plant.{site}.line.{line}.sensor.{sensor}, plant.> Several
	// subjects have a blank between them, and then the key is the whole subject.
	Subject string `mapstructure:"subject" default:"sensors.*" form:"subject" flag:"subject"`
	// Name of another job whose input this job reads, beside that job: subject and
	// partitions are that job's, and nothing is stored twice (docs/operations.md).
	// Empty: the job has an input of its own.
	Job string `mapstructure:"job" default:"" form:"job,optional" want:"the name of another job, or nothing" flag:"input-job"`
	// Where a new job begins in the input of another job: beginning, now, or a time
	// such as 2026-01-31T08:00:00Z. A job that has begun continues where it was.
	From string `mapstructure:"from" default:"beginning" form:"beginning" flag:"input-from"`
	// Keys that the job reads: patterns, separated by commas, with * for any
	// characters, such as pump*, A.line.*. Messages under other keys become dead letters, and
	// the gateway refuses them. Empty: all keys.
	Keys string `mapstructure:"keys" default:""`
	// How messages are written. auto: by the first bytes of each message, Arrow,
	// JSON, CSV or Influx line protocol; a job that has begun keeps its own format.
	// senml: RFC 8428. raw: bare numbers. This key and those up to raw_type are part of a job: they
	// cannot change while it lives (docs/formats.md).
	Format string `mapstructure:"format" default:"auto" enum:"auto,arrow,json,csv,influx,senml,raw"`
	// Where each channel of the model is in a message, if not under its name: c0:
	// $.axis.x in JSON, c0: column in CSV, c0: field in line protocol, c0: "[0]" by
	// position. A scale and an offset may follow: $.t * 0.1 - 40. Not for Arrow.
	Channels Mapping `mapstructure:"channels" default:"{}" form:"scaled source"`
	// Path of the array in a JSON message whose elements are rows, such as
	// $.samples. Empty: the message is a row, or an array of rows.
	Rows string `mapstructure:"rows" default:"" form:"source,optional"`
	// Where a row has its time. Empty: at ts, where it is there. Not for Arrow.
	Time string `mapstructure:"time" default:"" form:"source,optional"`
	// The unit of times that are numbers; they count from 1970. Texts are RFC 3339.
	TimeUnit string `mapstructure:"time_unit" default:"ns" enum:"ns,us,ms,s"`
	// Time between two rows of a JSON message that has arrays of samples and one
	// time, that of the first row. 0s: such a message becomes a dead letter.
	TimeStep time.Duration `mapstructure:"time_step" default:"0s" minimum:"0s"`
	// Where a row has its stream id. Empty: at stream_id, where it is there. Not
	// for Arrow.
	Stream string `mapstructure:"stream" default:"" form:"source,optional"`
	// Where a row has its end mark. Empty: at end, where it is there. Not for
	// Arrow.
	End string `mapstructure:"end" default:"" form:"source,optional"`
	// What is between the cells of a CSV line: one character.
	CSVSeparator string `mapstructure:"csv_separator" default:"," pattern:"^[,;|\\t]$" want:"a comma, a semicolon, a bar or a tab, in quotes"`
	// The type of bare numbers (format raw): float, signed or unsigned, bits, order
	// of bytes.
	RawType string `mapstructure:"raw_type" default:"f32le" enum:"f32le,f32be,f64le,f64be,i8,u8,i16le,i16be,u16le,u16be,i32le,i32be,u32le,u32be"`
	// What to do with a sample that is null, NaN or infinite. reject: the
	// message becomes a dead letter. hold: use the previous value of the stream.
	// zero: use 0.
	NonFinite string `mapstructure:"non_finite" default:"reject" enum:"reject,hold,zero" flag:"non-finite"`
	// By how many percent the sampling rate of a sequence may differ from the rate
	// that the model was trained at, before its predictions carry the flag rate. It
	// is measured if the model has a rate and every sample has a time (ts). -1: the
	// flag is never set.
	RateTolerance int `mapstructure:"rate_tolerance" default:"5" minimum:"-1" maximum:"100" not:"0"`
	// How many messages of a key may wait for a message with a lower number,
	// before that message counts as missing. -1: none, every gap counts at once.
	Reorder int `mapstructure:"reorder" default:"16" maximum:"65536" not:"0"`
	// Memory for all waiting messages of a partition.
	ReorderBytes Bytes `mapstructure:"reorder_bytes" default:"8MiB" minimum:"1B" maximum:"1GiB"`
	// Largest message, with its headers. Larger messages are refused. A server
	// with default settings accepts 1MiB, headers of a dead letter included.
	MaxMessage Bytes `mapstructure:"max_message" default:"1008KiB" minimum:"1KiB" maximum:"64MiB"`
	// Input that is older is deleted. 0s: it is stored for ever, so that a
	// restart can rebuild every state.
	MaxAge time.Duration `mapstructure:"max_age" default:"0s" minimum:"0s"`
	// When so much input is stored, producers are refused. 0: no limit.
	MaxBytes Bytes `mapstructure:"max_bytes" default:"0" minimum:"0"`
}

// Beginning is a value of input.from.
const Beginning = "beginning"

// Output says how much of what goes out is stored.
type Output struct {
	// How many messages of predictions each partition stores. 0: all, until the
	// disk is full.
	Keep int64 `mapstructure:"keep" default:"0" minimum:"0"`
	// One in so many predictions carries its features, for "learn" when the samples
	// are gone (docs/learn.md): 100 is one in a hundred, 1 is all. 0: none. Use the
	// same value for all workers of a job.
	FeaturesOneIn int `mapstructure:"features_one_in" default:"0" minimum:"0" maximum:"1000000"`
}

// DeadLetters says how many messages that could not be used are stored.
type DeadLetters struct {
	// How many dead letters are stored. -1: all, until the disk is full.
	Keep int64 `mapstructure:"keep" default:"100000" not:"0"`
}

// Stage sizes the stage.
type Stage struct {
	// Partitions of the job. The number decides which keys belong together, so it
	// stays until "eusn-stream job resize" changes it. 0: those of the job; a new
	// job gets 16, or 8 with the embedded server.
	Partitions int `mapstructure:"partitions" default:"0" minimum:"0" maximum:"4096" flag:"partitions"`
	// Engines that work in parallel, at most one for each partition. 0: one for
	// each core.
	Shards int `mapstructure:"shards" default:"0" minimum:"0" maximum:"1024" flag:"shards"`
	// What computes. auto: a GPU if there is one, else the fastest engine of
	// this CPU. All give the same bits, except gpu-3xtf32 and gpu-2xtf32
	// (docs/gpu.md).
	Engine string `mapstructure:"engine" default:"auto" enum:"auto,avx512,avx2,neon,generic,gpu,gpu-3xtf32,gpu-2xtf32" flag:"engine"`
	// A batch is closed at this many rows, or after latency.
	Rows int `mapstructure:"rows" default:"32000" minimum:"1" maximum:"16777216"`
	// A batch is closed this long after its first message, or up to four times as
	// long while the batch before is not committed. Negative: as soon as no message
	// is waiting.
	Latency time.Duration `mapstructure:"latency" default:"5ms" maximum:"1m" not:"0s"`
	// States that a shard holds in memory, one for each open sequence. Beyond
	// that, the states used least recently are stored and loaded again when
	// needed. If that many states of all shards need more than half of the memory,
	// a CPU engine holds fewer, and the log reports how many.
	MaxSlots int `mapstructure:"max_slots" default:"65536" minimum:"1" maximum:"268435456"`
	// Streams that a partition remembers. Beyond that, one of the streams that were
	// silent longest is forgotten (docs/operations.md, New streams).
	MaxStreams int `mapstructure:"max_streams" default:"16384" minimum:"1" maximum:"67108864"`
	// A stream that was silent for this long has its open sequence ended. 0s: only
	// producers end sequences.
	Idle time.Duration `mapstructure:"idle" default:"0s" minimum:"0s"`
	// A stream that was silent for this long is forgotten, with its message
	// numbers. No shorter than idle. 0s: streams are forgotten only beyond
	// max_streams.
	Forget time.Duration `mapstructure:"forget" default:"720h" minimum:"0s"`
	// Name of the model's readout that predicts. Empty: its first.
	Readout string `mapstructure:"readout" default:""`
	// The state of a partition is stored after this many messages, or after
	// snapshot_every. A restart replays the messages since. While a shard has more
	// than 64 MiB of states on their way to the server, both count twice.
	SnapshotMessages int `mapstructure:"snapshot_messages" default:"4096" minimum:"1" maximum:"1073741824"`
	// The state of a partition is stored after this time, or after
	// snapshot_messages.
	SnapshotEvery time.Duration `mapstructure:"snapshot_every" default:"30s" minimum:"1ns"`
	// A worker that does not answer for this long loses its partitions. Use the
	// same value for all workers of a job.
	Lease time.Duration `mapstructure:"lease" default:"3s" minimum:"200ms" maximum:"2m"`
	// How long a stop waits for the last commit.
	StopTimeout time.Duration `mapstructure:"stop_timeout" default:"10s" minimum:"1ns"`
}

// Alarms says when somebody is woken.
type Alarms struct {
	// Rules, by their names: a condition and, behind commas, clauses, such as {imbalance:
	// class imbalance >= 0.8, 3 of 5, hold 10m}. Conditions: class C|D >= P, flag F|G,
	// novel P, value|low|high > X, drift probability|score|novelty|inputs|interval|class C, silent T.
	// Clauses: K of N, clear below Q, clear above Q, clear after M, between N, shift D, hold T,
	// quiet 22:00-06:00, streams S, by "REGEXP", only CONDITION, final.
	Rules Mapping `mapstructure:"rules" default:"{}" pattern:"^(class|flag|novel|value|low|high|drift|silent)\\s" want:"rules with a text each, such as {imbalance: \"class imbalance >= 0.8, 3 of 5\", dead: flag flat, silent: silent 10m}"`
	// URL to which each event is posted, at least once and in order. Empty: none.
	Webhook string `mapstructure:"webhook" default:"" pattern:"^$|^https?://[^ ]+$" want:"a URL such as https://host/path, or nothing"`
	// Secret with which the posts are signed (HMAC-SHA256). Set it as an environment
	// variable rather than in a file.
	WebhookSecret string `mapstructure:"webhook_secret" default:""`
	// URL of Prometheus' Alertmanager (0.16 or later), which is told again and again what
	// is on; of a cluster all, with commas between. A user and a password may stand in it:
	// then set it as an environment variable. Empty: none.
	Alertmanager string `mapstructure:"alertmanager" default:"" pattern:"^$|^https?://[^ ,?#]+(,https?://[^ ,?#]+)*$" want:"URLs such as http://host:9093, with commas between, or nothing"`
	// Labels that Alertmanager gets beside alertname (the rule), job and key: of all rules
	// under the label's name, of one rule under RULE/LABEL.
	AlertmanagerLabels Mapping `mapstructure:"alertmanager_labels" default:"{}" pattern:"." want:"labels with a text each, such as {severity: warning, imbalance/severity: critical}"`
	// MQTT broker to which each event is published with QoS 1, at least once and in order:
	// tcp://host:1883, ssl://host:8883, ws:// or wss://. Empty: none.
	MQTT string `mapstructure:"mqtt" default:"" pattern:"^$|^(tcp|mqtt|ssl|tls|mqtts|ws|wss)://[^ ]+$" want:"a URL such as tcp://host:1883 or ssl://host:8883, or nothing"`
	// Client id at that broker. Empty: eusn-alarms- and the job.
	MQTTID string `mapstructure:"mqtt_id" default:""`
	// Name to log in with at that broker.
	MQTTUser string `mapstructure:"mqtt_user" default:""`
	// The password that belongs to mqtt_user. Set it as an environment variable rather
	// than in a file.
	MQTTPassword string `mapstructure:"mqtt_password" default:""`
	// Beginning of the topics, PREFIX/JOB/alarm/RULE/KEY.
	MQTTPrefix string `mapstructure:"mqtt_prefix" default:"eusn-stream" pattern:"^[^ $/+#\x00][^+#\x00]*$" want:"words with / between, without + and #, such as plant/alarms"`
	// The broker keeps the last event of each alarm, for clients that come later.
	MQTTRetain bool `mapstructure:"mqtt_retain" default:"false"`
	// TLS to webhook, Alertmanager and broker.
	TLS TLS `mapstructure:"tls"`
}

// Log is the log's.
type Log struct {
	// The least important messages that are written.
	Level string `mapstructure:"level" default:"info" enum:"debug,info,warn,error"`
	// json: every line on standard error is JSON, hints and errors too. To have
	// this also before the file is read, set EUSN_LOG_FORMAT=json.
	Format string `mapstructure:"format" default:"text" enum:"text,json"`
}

// Metrics says where metrics and health are served.
type Metrics struct {
	// Address to listen on, such as 127.0.0.1:9464. Port 0 is any free port.
	// Empty: off.
	Listen string `mapstructure:"listen" default:"" form:"address,optional" flag:"metrics"`
	// Path of a file with those who may log in with a name and a password: a line
	// name:hash for each, as htpasswd -B writes it (bcrypt). Empty: nobody.
	Users string `mapstructure:"users" default:""`
	// Path of a file with tokens of at least 16 characters, a line for each, with which
	// programs log in (Authorization: Bearer). Without users and token_file, there is no
	// login.
	TokenFile string `mapstructure:"token_file" default:""`
	// Answer /healthz and /readyz without login and client certificate, for an
	// orchestrator that has neither. /readyz names partitions and what is wrong with them.
	OpenHealth bool `mapstructure:"open_health" default:"false"`
	// Answer others than this machine without a login and in clear. Set it only in a
	// network in which you trust everybody.
	Insecure bool `mapstructure:"insecure" default:"false"`
	// TLS of the address.
	TLS TLS `mapstructure:"tls"`
}

// Traces says where traces go, and of how many messages.
type Traces struct {
	// URL of the collector, by OTLP over HTTP: http://host:4318 or https://host:4318.
	// Without a path, /v1/traces is added. Empty: off.
	Endpoint string `mapstructure:"endpoint" default:"" pattern:"^$|^https?://[^\\s/?#@]+(/[^\\s?#]*)?$" want:"a URL such as http://127.0.0.1:4318, without a name, a password and a query (headers_file takes what logs in), or nothing"`
	// One in so many messages is traced, of those that do not say it themselves (header
	// traceparent): 1 is all. 0: none of them.
	SampleOneIn int `mapstructure:"sample_one_in" default:"1000" minimum:"0" maximum:"1000000000"`
	// Most messages traced in a second, whoever asks for it. What is beyond is not
	// traced, and counted.
	Rate int `mapstructure:"rate" default:"100" minimum:"1" maximum:"1000000"`
	// Path of a file with headers that the collector wants, a line "Name: value" each,
	// such as "Authorization: Bearer ...". Empty: none.
	HeadersFile string `mapstructure:"headers_file" default:""`
	// TLS to the collector.
	TLS TLS `mapstructure:"tls"`
}

// Gateway says how devices send to a gateway.
type Gateway struct {
	// Address of the gateway's own MQTT broker, such as 127.0.0.1:1883. Others
	// than this machine reach an address without a host, or with another one: then
	// user, password, tls.cert and tls.key must be set, or insecure. Empty: none.
	MQTT string `mapstructure:"mqtt" default:"" flag:"mqtt-listen"`
	// Address for HTTP: POST /v1/TOPIC, and POST /write for line protocol. Empty:
	// none.
	HTTP string `mapstructure:"http" default:"" flag:"http-listen"`
	// Address for Influx line protocol over TCP. There is no login: others than
	// this machine need insecure. Empty: none.
	TCP string `mapstructure:"tcp" default:"" flag:"tcp-listen"`
	// Address for Influx line protocol over UDP, like tcp. Empty: none.
	UDP string `mapstructure:"udp" default:"" flag:"udp-listen"`
	// Another MQTT broker, whose client the gateway is: tcp://host:1883,
	// ssl://host:8883, ws:// or wss://. Empty: none.
	Broker string `mapstructure:"broker" default:"" flag:"broker"`
	// Client id at that broker, which keeps the gateway's session under it: each
	// gateway has its own.
	BrokerID string `mapstructure:"broker_id" default:"eusn-gateway" minLength:"1" want:"a client id"`
	// Name to log in with at that broker.
	BrokerUser string `mapstructure:"broker_user" default:""`
	// The password that belongs to broker_user. Set it as an environment variable
	// rather than in a file.
	BrokerPassword string `mapstructure:"broker_password" default:""`
	// Which topics have a stream, as MQTT writes patterns, separated by commas. The
	// key of a stream is what + and # stand for, joined by /.
	Topics string `mapstructure:"topics" default:"sensors/+" minLength:"1" want:"patterns such as plant/+/sensor/+" flag:"topics"`
	// How devices write messages. auto: by the first bytes of each message. Where
	// the channels are, input.* says.
	Format string `mapstructure:"format" default:"auto" enum:"auto,arrow,json,csv,influx,senml,raw"`
	// Directory in which batches wait for the server's answer. One gateway uses it
	// at a time.
	Outbox string `mapstructure:"outbox" default:"eusn-gateway" minLength:"1" want:"the path of a directory" flag:"outbox"`
	// When so much waits there, the gateway takes nothing more.
	OutboxBytes Bytes `mapstructure:"outbox_bytes" default:"1GiB" minimum:"1MiB"`
	// How long a sample waits for others of its stream.
	Latency time.Duration `mapstructure:"latency" default:"20ms" minimum:"1ms" maximum:"1m"`
	// Largest message of a device.
	MaxMessage Bytes `mapstructure:"max_message" default:"256KiB" minimum:"1KiB" maximum:"64MiB"`
	// Name that devices log in with over MQTT and HTTP. Empty: anybody may send.
	User string `mapstructure:"user" default:""`
	// The password that belongs to user. Set it as an environment variable rather
	// than in a file.
	Password string `mapstructure:"password" default:""`
	// Take messages from others than this machine without a login and in clear. Set
	// it only in a network in which you trust everybody.
	Insecure bool `mapstructure:"insecure" default:"false"`
	// Streams of which the input has no message yet that may begin within a minute from
	// one address; further ones are refused. UDP counts as one address. 0: any number.
	NewStreams int `mapstructure:"new_streams" default:"1000" minimum:"0"`
	// Host names under which HTTP is reached without a login (plant.example), and
	// origins of web pages that may send (https://dash.example), separated by commas.
	// IP addresses, localhost and names without a dot are always accepted.
	Hosts string `mapstructure:"hosts" default:""`
	// Time between two samples of a field bus: each has the values that are known then. 0s: a sample
	// for each time that the values of a message have, and for each poll.
	Period time.Duration `mapstructure:"period" default:"0s" minimum:"0s"`
	// TLS of mqtt and http.
	TLS TLS `mapstructure:"tls"`
	// TLS to the other broker (broker).
	BrokerTLS TLS `mapstructure:"broker_tls"`
	// Sparkplug B (docs/fieldbus.md), over mqtt or broker.
	Sparkplug Sparkplug `mapstructure:"sparkplug"`
	// A server of OPC UA (docs/fieldbus.md).
	OPCUA OPCUA `mapstructure:"opcua"`
	// Servers of Modbus TCP (docs/fieldbus.md).
	Modbus Modbus `mapstructure:"modbus"`
}

// Sparkplug says which nodes of Sparkplug B a gateway listens to.
type Sparkplug struct {
	// Groups of Sparkplug B whose edge nodes send over the gateway's MQTT, separated
	// by commas; + for all. Empty: topics of Sparkplug B are like others.
	Groups string `mapstructure:"groups" default:"" flag:"sparkplug"`
	// A death (NDEATH, DDEATH) ends the open sequence of each of its streams. By
	// default it does not: a node that has lost its broker has not stopped its
	// machine.
	End bool `mapstructure:"end" default:"false"`
}

// OPCUA says which variables of a server of OPC UA a gateway subscribes to.
type OPCUA struct {
	// A server of OPC UA whose variables are subscribed to: opc.tcp://host:4840. Empty:
	// none.
	URL string `mapstructure:"url" default:"" flag:"opcua"`
	// Where each channel of each stream is in that server, by the stream's key, a /
	// and the channel.
	Nodes Mapping `mapstructure:"nodes" default:"{}" pattern:"^(ns=[0-9]+;)?[isgb]=.+$" want:"node ids, such as {pump7/x: ns=2;s=Pump7.X}"`
	// Security policy of the connection. auto: the safest that the server offers; without
	// cert that is None.
	Security string `mapstructure:"security" default:"auto" enum:"auto,None,Basic256Sha256,Aes128_Sha256_RsaOaep,Aes256_Sha256_RsaPss"`
	// Path of the gateway's own certificate, which the server must trust. It needs
	// key.
	Cert string `mapstructure:"cert" default:""`
	// Path of the key of that certificate.
	Key string `mapstructure:"key" default:""`
	// Path of the server's certificate: a server that has another one is not spoken
	// to. Empty: any.
	Trust string `mapstructure:"trust" default:""`
	// How to log in. auto: with user, or as nobody where that is empty.
	// certificate: with cert, which the server must know as that of a user.
	Login string `mapstructure:"login" default:"auto" enum:"auto,certificate"`
	// Name to log in with at the server. Empty: anonymous.
	User string `mapstructure:"user" default:""`
	// The password that belongs to user. Set it as an environment variable rather
	// than in a file.
	Password string `mapstructure:"password" default:""`
	// How often the server looks at a variable. 0s: it notes each change, or looks as
	// often as it can.
	Sampling time.Duration `mapstructure:"sampling" default:"100ms" minimum:"0s" maximum:"1h"`
	// How often the server sends what has changed.
	Publishing time.Duration `mapstructure:"publishing" default:"500ms" minimum:"1ms" maximum:"1h"`
	// Values of a variable that the server keeps until it sends them. If more come,
	// the oldest are lost, and the next sample is flagged.
	Queue int `mapstructure:"queue" default:"100" minimum:"1" maximum:"100000"`
}

// Modbus says which registers a gateway polls over Modbus TCP.
type Modbus struct {
	// Servers of Modbus TCP whose registers are polled: host:port, separated by
	// commas. Empty: none.
	Servers string `mapstructure:"servers" default:"" flag:"modbus"`
	// Where each channel of each stream is, by the stream's key, a / and the channel.
	// One of another server than the first begins with that server's address and a /.
	Registers Mapping `mapstructure:"registers" default:"{}" form:"register"`
	// The unit of registers that name none.
	Unit int `mapstructure:"unit" default:"1" minimum:"0" maximum:"255"`
	// Time between two polls.
	Interval time.Duration `mapstructure:"interval" default:"100ms" minimum:"1ms" maximum:"1h"`
	// How long to wait for an answer.
	Timeout time.Duration `mapstructure:"timeout" default:"1s" minimum:"10ms" maximum:"1m"`
}
