// Package gateway receives samples from devices that do not use NATS and publishes them
// to a job's input: batched, numbered, each stream in order. The packages below
// implement the protocols: mqtt, web (HTTP) and line (Influx line protocol over TCP and
// UDP). The gateway uses only the stage's names of subjects and headers; see package
// pipeline, "Delivery".
//
// # The way of a message
//
//	device -> mqtt, web, line     payload, key (from topic or path) and what identifies the message
//	  take.go         decodes it, refuses what has no stream, asks once for the key's last number
//	  batch.go        adds its samples to the open batch of its stream
//	  producer.Lanes  seals the batch: full, or after Config.Latency; it gets its number
//	  internal/outbox writes batch, number and the messages in it to the disk
//	  producer.Lanes  publishes it; a stream has one message without an answer at a time
//	  publish.go      the answer: notes it in the outbox; answers the devices
//
// While a message of a stream has no answer, the next batch of that stream grows, for
// at most a second: a slow server gets few large messages. A single goroutine owns all
// batches. Decoding runs in the goroutines of the inputs.
//
// # Purposes of the outbox
//
// Devices with acknowledgements are answered after the server has stored the samples,
// so this data needs no disk. The outbox has two other purposes.
//
// First, numbers. A batch without an answer may or may not be stored. The next run must
// neither skip this batch nor send the samples under another number. So batch and
// number are on disk before the batch is first published. The next run sends the same
// bytes under the same number and incarnation, and the stage drops a repeat. The
// numbers continue through all runs under one incarnation: a restart is no gap.
//
// Second, devices that cannot wait: QoS 0, and lines over TCP and UDP. Their
// samples wait on the disk while the server is away, up to Config.OutboxBytes.
//
// The outbox also stores the newest messages of each device (its session, the packet
// id, a hash of topic and content), and the batch of each. If a device resends a
// message because the gateway ended before the acknowledgement, the device is
// acknowledged when the batch is stored, and the samples are not added twice. A repeat
// is recognized if the device marks it (DUP), in the same session, with the same packet
// id, topic and content, among the newest 256 messages of the device (beyond 100,000
// devices, or 8 million messages counted per stream, the devices silent longest are
// forgotten). An
// acknowledged message proves nothing if the device has used a packet id twice among
// these messages, or only one id: the repeat may be of a later message, which never
// arrived. The gateway then accepts it: a duplicate is better than a loss. A message
// that waited in the outbox when the run began was not acknowledged before, so its
// repeat is always recognized (unless a power loss or damage may have removed the end
// of the outbox). With QoS 2 a device announces the reuse of an id (PUBREL): until then
// a repeat is also always recognized. The outbox does not store this announcement, so
// this holds within a run. A device that begins a new session (clean session, clean
// start) resends nothing of the old session.
//
// # Guarantees
//
// "Killed" is the gateway at any moment (kill -9), and the start of another gateway
// with the same outbox. Lost and doubled are samples of messages that the device has
// sent completely.
//
//	input                       acknowledged               lost when killed         doubled when killed
//	MQTT QoS 1 and 2, session   PUBACK, PUBREC: stored     nothing acknowledged     nothing, of a device that
//	  kept by the device                                                            counts its packet ids (above)
//	MQTT QoS 1 and 2, clean     the same                   nothing acknowledged     resent messages
//	  session
//	MQTT QoS 0                  no                         what has no number yet:  nothing
//	                                                       the newest 20 ms, or 1 s
//	                                                       if the server is slow
//	another broker, QoS 1       PUBACK to the broker       nothing acknowledged     nothing, if the broker keeps
//	                                                                                the session and sets DUP
//	HTTP, with Idempotency-Key  204: stored                nothing acknowledged     nothing, for the newest 65,536 keys
//	HTTP, without               the same                   nothing acknowledged     resent messages
//	lines over TCP              no                         as QoS 0, and what TCP   nothing
//	                                                       had under way
//	Sparkplug B                 no                         until its births have    nothing
//	                                                       come again (flag gap)
//	OPC UA                      when it is read            until it has subscribed   nothing
//	                                                       again, and as QoS 0
//	                                                       (flag gap)
//	Modbus TCP                  no                         until it polls again,    nothing
//	                                                       and as QoS 0 (flag gap)
//	lines over UDP              no                         as QoS 0, and packets    packets that the network doubles
//	                                                       for which there was no room
//	                                                       (flag gap)
//
// If a device gives a message up, or resends it as a new message (without DUP, under
// another packet id or key), the first is missing, the second duplicated.
//
// After a power loss of the gateway's machine the end of the outbox may be missing,
// because writes are not synced. Acknowledged messages are stored on the server.
// Unacknowledged messages may be doubled, and messages only in the outbox (QoS 0,
// lines) are lost. Numbers are not used twice: before it publishes to a key, each run
// asks the input for the key's last number. If that is higher than the outbox's, the
// outbox has lost its end, and samples may be doubled. If the input no longer has a
// message of the key, a number from an outbox that may lack its end (package
// internal/outbox) is in doubt: the stage may know a higher number, and would drop
// later messages as repeats. If a record is damaged, batches of any key may be missing;
// if a device resends the missing batches, later batches precede the resent batches. In
// each case a new incarnation begins, which the stage flags as a gap. Incarnations of a key
// are counted (F, F.1, F.2), also after lost samples (flag gap): if the input ends with a
// later incarnation than a waiting message, the message is stored, and is not republished.
//
// # Holding back
//
// If the server refuses a message (the input or the disk is full, no stream has the
// subject) or does not answer, the gateway tries one message every 250 ms until one is
// stored, and logs the reason. Meanwhile no device gets an acknowledgement. MQTT
// devices stop at their limit of unacknowledged messages; HTTP requests get 503 after
// 10 s. When the outbox is full, the gateway also stops reading: QoS 0 and TCP wait in
// their connections; UDP packets, and beyond 64 MiB the QoS 0 messages of another
// broker, are dropped and counted.
//
// # Keys
//
// A key consists of the levels of a topic matched by the wildcards, joined by "/". If
// the job's keys have several tokens (plant.*.line.*, plant.>), each level is published
// as a token, and a key with another number of levels is refused.
//
// Only one gateway may send a key: a second gateway, or a producer with the same key,
// would use separate numbers. If the gateway finds a foreign last message, it begins a
// new incarnation, which the stage flags as a gap. A topic that matches no pattern, or
// has a key that is not a token (blanks, dots, * and >) or not a name (package names),
// is refused with a sentence and counted. MQTT 5 reports it in the acknowledgement;
// MQTT 3.1.1 has no error answer, so the connection ends; another broker gets an
// acknowledgement, because otherwise it would resend the message indefinitely.
//
// An unreadable payload is published unchanged, under the next number, with the reason
// in Eusn-Unreadable: the stage makes it a dead letter without decoding, because its
// settings may differ. The device is answered after the storage of the payload. A job
// that does not read Arrow is refused: Config.Reads. A message with a sample that the
// stage may refuse (not finite, too large, without a time among samples with times)
// shares its batch with no other message, so that only it becomes a dead letter.
//
// Messages with a single value each become samples in package values (Config.Values). A
// value counts when the loop accepts its message and the message is no repeat. The outbox
// remembers the messages of all values of a sample with its batch. Field buses have
// packages of their own: sparkplug, opcua and modbus. Package internal/outbox keeps
// batches on disk.
//
// # Files
//
//   - gateway.go: runs the loop that owns batches and numbers
//   - message.go: defines messages of devices and reasons to refuse messages
//   - take.go: accepts a message: decodes, checks and queues its samples
//   - lines.go: reads messages of several lines
//   - topics.go: maps topics to keys
//   - batch.go: adds the samples of messages to batches
//   - publish.go: keeps batches in the outbox, and holds back
//   - numbers.go: continues the numbers of a key in the input
//   - entry.go: compares the job's input format with the gateway's output
//   - begun.go: limits the new streams of a sender
//   - access.go: checks logins; listens with TLS
//   - stats.go: counts messages
//   - complaints.go: limits log lines
package gateway
