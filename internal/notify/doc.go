// Package notify sends the alarms of a job to a webhook, to an MQTT broker and to Prometheus'
// Alertmanager. It reads the alarm log of package watch. An unreachable receiver does not delay the
// alarms themselves.
//
// # Events: webhook and MQTT
//
// Webhook and MQTT send each event of the log unchanged, in order, at least once. Each output has a
// consumer of the log on the server, which stores the output's position. If the process is killed
// between sending an event and acknowledging it to the server, the event is resent with the same
// Event.ID.
//
// # State: Alertmanager
//
// Alertmanager expects active alarms repeatedly, and loses all alarms when it ends. This output
// therefore stores no position: the last event of each alarm in the log is the alarm's state. Each
// alarm is sent when it changes and every Resend, with an end (endsAt) Expire in the future. A
// cleared alarm is sent with its clearing time, repeatedly for twice Expire. After a kill, the next
// process sends the same alarms: Alertmanager identifies alarms by their labels, and the labels are
// the same. Older cleared alarms have already expired at Alertmanager.
//
// # Files
//
//   - queue.go: sends events in order, each at least once
//   - position.go: stores on the server which events were sent
//   - webhook.go: posts events to a URL
//   - http.go: sends requests and classifies answers
//   - mqtt.go: publishes events to a broker
//   - alertmanager.go: reports active alarms to Alertmanager
package notify
