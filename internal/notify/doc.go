// Package notify sends the alarms of a job elsewhere: to a webhook, to an MQTT broker and
// to Prometheus' Alertmanager. It reads the alarm log that package watch keeps, and what it
// sends holds up nothing: where a receiver is away, alarms are raised and cleared as always.
//
// # Events: webhook and MQTT
//
// Webhook and MQTT send each event of the log as it is, one after the other, at least once.
// A consumer of the log on the server, of their own name, remembers how far they are. An
// event that was sent and not acknowledged to the server, because the process was killed in
// between, is sent again: Event.ID is the same.
//
// # State: Alertmanager
//
// Alertmanager wants to be told again and again what is on, and forgets all when it ends.
// So nothing has to be remembered here: what is on is the last event of each alarm in the
// log. Each is sent when it changes and every Resend, with an end (endsAt) that is Expire
// away; an alarm that is cleared is sent with the time at which it was, again and again for
// twice that time. When a process is killed, the next one sends the same: Alertmanager
// knows alarms by their labels, and those are the same. An alarm that was cleared longer ago than
// that has ended at Alertmanager by itself.
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
