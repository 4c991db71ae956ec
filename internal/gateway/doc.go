// Package gateway takes samples from devices that do not speak NATS and
// publishes them to a job's input: batched, numbered, each stream in order. The
// packages below it speak the protocols: mqtt, web (HTTP) and line (Influx line
// protocol over TCP and UDP). It knows nothing of the stage but the names of
// subjects and headers; package pipeline, "Delivery", says what they mean.
//
// # The way of a message
//
//	device -> mqtt, web, line     payload, key (from topic or path) and what identifies the message
//	  take.go         decodes it, refuses what has no stream, asks once for the key's last number
//	  batch.go        adds its samples to the open batch of its stream
//	  producer.Lanes  seals the batch: full, or after Config.Latency; it gets its number
//	  internal/outbox writes batch, number and the messages in it to the disk
//	  producer.Lanes  publishes it; a stream has one message without an answer at a time
//	  publish.go      the answer: notes it in the outbox; the devices are told
//
// While a message of a stream has no answer, the next batch of that stream
// grows, for a second at most: so few large messages go out where the server is
// slow. One goroutine owns all of this. Decoding is in the goroutines of the
// inputs.
//
// # What the outbox is for
//
// Devices that wait for an acknowledgement get it after the server has stored
// the samples, so their data needs no disk. The outbox is for two other things.
//
// First, numbers. A batch that was published, but whose answer never came, may be
// stored or not. The next run must neither leave it out nor send its samples
// under another number. So batch and number are on disk before the batch is
// published for the first time. The next run sends the same bytes under the same
// number and incarnation, and the stage drops what it has. The numbers continue
// through all runs under one incarnation: a restart is no gap.
//
// Second, devices that cannot wait: QoS 0, and lines over TCP and UDP. Their
// samples wait on the disk while the server is away, up to Config.OutboxBytes.
//
// The outbox also knows the newest messages of each device (its session, the
// packet id, a hash of topic and content), and in which batch they are. A device
// that sends a message again because the gateway ended before its
// acknowledgement is acknowledged when that batch is stored, and its samples
// are not taken twice. A repeat is recognised if the device says that it is one
// (DUP), in the same session, with the same packet id, topic and content, among
// the newest 256 messages of the device (beyond 100,000 devices or 8 million
// messages, those silent longest are forgotten). A message that was acknowledged proves
// nothing once the device has used a packet id twice among those, or if it has used
// one id alone: the repeat may be of a later message, which never arrived. Then it is
// taken: rather doubled than lost. A message that waited in the outbox when the run began was not
// acknowledged before, so its repeat is recognised in any case (unless a power loss
// or damage may have taken the end of the outbox). With QoS 2 a device says when it
// uses an id again (PUBREL): until then a repeat is recognised in any case, too. The
// outbox does not have that, so it holds within a run. A device that begins a new
// session (clean session, clean start) says that nothing of the old one comes again.
//
// # Guarantees
//
// "Killed" is the gateway at any moment (kill -9), and the start of another one
// with the same outbox. Lost and doubled are samples of messages that the device
// has handed over.
//
//	input                       acknowledged               lost when killed         doubled when killed
//	MQTT QoS 1 and 2, session   PUBACK, PUBREC: stored     nothing acknowledged     nothing, of a device that
//	  kept by the device                                                            counts its packet ids (above)
//	MQTT QoS 1 and 2, clean     the same                   nothing acknowledged     what the device sends again
//	  session
//	MQTT QoS 0                  no                         what has no number yet:  nothing
//	                                                       the newest 20 ms, or 1 s
//	                                                       if the server is slow
//	another broker, QoS 1       PUBACK to the broker       nothing acknowledged     nothing, if the broker keeps
//	                                                                                the session and sets DUP
//	HTTP, with Idempotency-Key  204: stored                nothing acknowledged     nothing, for the newest 65,536 keys
//	HTTP, without               the same                   nothing acknowledged     what the device sends again
//	lines over TCP              no                         as QoS 0, and what TCP   nothing
//	                                                       had under way
//	Sparkplug B                 no                         until its births have    nothing
//	                                                       come again (flag gap)
//	OPC UA                      when it is read            until it has subscribed   nothing
//	                                                       again, and as QoS 0
//	                                                       (flag gap)
//	Modbus TCP                  nobody is told             until it polls again,    nothing
//	                                                       and as QoS 0 (flag gap)
//	lines over UDP              no                         as QoS 0, and packets    packets that the network doubles
//	                                                       for which there was no room
//	                                                       (flag gap)
//
// A device that gives a message up, or sends it again as a new one (without DUP,
// under another packet id or key), cannot be helped: the first is missing, the
// second is there twice.
//
// After a power loss of the gateway's machine the end of the outbox may be
// missing, because nothing is synced. What was acknowledged is stored on the
// server. What was not may be doubled, and what was only in the outbox (QoS 0,
// lines) is lost. Numbers are not used twice: before it publishes anything of a
// key, each run asks the input for the key's last number. If that is higher than the
// outbox's, the outbox has lost its end, and samples may be doubled. If the input has no
// message of the key any more, a number from an outbox that may lack its end (package
// internal/outbox) is in doubt: the stage may know a higher one, and would drop what
// follows as repeats. If a record is damaged, batches of any key may be missing. In each
// case a new incarnation begins, which the stage flags as a gap.
//
// # Holding back
//
// If the server refuses a message (the input is full, the disk is, nobody takes
// the subject) or does not answer, the gateway tries one message every 250 ms
// until one is stored, and says in the log why. Meanwhile nobody is
// acknowledged. MQTT devices stop by themselves when they have as many messages
// without an acknowledgement as they may have; HTTP requests get 503 after 10 s.
// When the outbox is full, the gateway also stops to read: QoS 0 and TCP wait
// in their connections; UDP packets, and beyond 64 MiB what another broker sends
// with QoS 0, are dropped and counted.
//
// # Keys
//
// A key is the levels of a topic that the wildcards stand for, joined by "/".
// Where the job's keys have several tokens (plant.*.line.*, plant.>), each level
// is published as one of them, and a key of another number of levels is refused.
//
// One gateway sends a key: a second one, or a producer that publishes under the
// same key, would count its own numbers. If the gateway finds another's message
// last, it begins a new incarnation, which the stage flags as a gap. A topic
// that fits no pattern, or whose key is not a token (blanks, dots, * and >) or
// not a name (package names), is refused with a sentence and counted. MQTT 5
// says it in the acknowledgement; MQTT 3.1.1 has no such answer, so the
// connection ends; another broker is told that the message was taken, because
// it would send it for ever.
//
// A payload that cannot be read is published as it is, under the next number, with
// the reason in Eusn-Unreadable: the stage makes a dead letter of it and does not try
// to read it, since its settings may be others. The device is told when it is stored.
// A job that does not read Arrow is not the gateway's: Config.Reads. A message with a sample that the stage
// may refuse (not finite, too large, without a time among others that have one)
// shares its batch with no other, so that only it becomes a dead letter.
//
// Field buses have packages of their own: sparkplug, opcua and modbus. Package
// internal/outbox keeps batches on disk.
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
//   - entry.go: compares how the job reads messages with what the gateway publishes
//   - begun.go: limits the new streams of a sender
//   - access.go: checks logins; listens with TLS
//   - stats.go: counts messages
//   - complaints.go: limits log lines
package gateway
