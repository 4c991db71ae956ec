package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// MQTT publishes the events of a job's alarms to a broker with QoS 1, in order, each at least once.
// The server stores the output's position. The protocol is MQTT 3.1.1, which MQTT 5 brokers also
// support.
type MQTT struct {
	Job            string
	URL            string // tcp://, ssl://, ws:// or wss:// with host and port
	ID             string // client ID; empty = eusn-alarms-JOB
	User, Password string
	Prefix         string // of the topics, see Topic
	Retain         bool   // the broker retains the last event of each alarm
	TLS            *tls.Config
	First          time.Duration // wait after the first failure, doubled each time; 0 = 1 s
	Log            *slog.Logger

	client paho.Client // nil = not connected
	closed struct {    // the broker closed the connection when this event was published
		event uint64
		times int
	}
}

// maxClosed is how many times in a row a broker may close the connection on publication before the
// event is skipped: MQTT 3.1.1 has no other way to forbid a topic. With the waits this takes a
// minute and a half, enough for a broker's restart.
const maxClosed = 10

// CheckBroker checks the address of a broker.
func CheckBroker(address string) error {
	if _, err := urls.Parse(address, "tcp", "mqtt", "ssl", "tls", "mqtts", "ws", "wss"); err == nil {
		return nil
	}
	return fmt.Errorf("notify: broker %q: want a URL such as tcp://host:1883, ssl://host:8883, ws://host/path or wss://host/path", urls.Redact(address))
}

// CheckPrefix checks the prefix of topics.
func CheckPrefix(prefix string) error {
	if prefix == "" || prefix[0] == '/' || prefix[0] == '$' || strings.HasSuffix(prefix, "/") || strings.ContainsAny(prefix, "+#\x00") || len(prefix) > 1024 {
		return fmt.Errorf("notify: prefix %q of topics: want words with / between, such as plant/alarms, without + and #", prefix)
	}
	return nil
}

// Topic returns the topic of an alarm's events: PREFIX/JOB/alarm/RULE/KEY. After the prefix, it is
// the event's subject with / for dots, as in NATS' own mapping for MQTT clients.
func Topic(prefix, job, rule, key string) string {
	return prefix + "/" + strings.ReplaceAll(wire.AlarmSubject(job, rule, alarm.Token(key)), ".", "/")
}

// Prepare implements Output.
func (m *MQTT) Prepare(ctx context.Context, nc *nats.Conn) error {
	if err := errors.Join(CheckBroker(m.URL), CheckPrefix(m.Prefix)); err != nil {
		return err
	}
	return m.newQueue().prepare(ctx, nc)
}

// Run implements Output.
func (m *MQTT) Run(ctx context.Context, nc *nats.Conn) error {
	session := *m // with its own connection
	defer session.close()
	return session.newQueue().runUntilDone(ctx, nc)
}

func (m *MQTT) newQueue() *queue {
	return &queue{job: m.Job, name: wire.OutputMQTT, first: m.First, log: m.Log, checkReceiver: m.ensureConnected, sendEvent: func(ctx context.Context, e *alarm.Event, data []byte) error {
		if err := m.ensureConnected(ctx); err != nil {
			return err
		}
		err := waitForBroker(ctx, m.client.Publish(Topic(m.Prefix, m.Job, e.Rule, e.Key), 1, m.Retain, data))
		if err == nil {
			m.closed.times = 0
			return nil
		}
		ended := !m.client.IsConnectionOpen()
		m.close() // the state of pending messages is unknown: they are resent
		if !ended || ctx.Err() != nil {
			return err
		}
		if m.closed.event != e.Number {
			m.closed.event, m.closed.times = e.Number, 0
		}
		if m.closed.times++; m.closed.times >= maxClosed {
			return fmt.Errorf("%w: the broker closed the connection %d times on publication to %s: check that this login may publish there: %w", errRefused, m.closed.times, Topic(m.Prefix, m.Job, e.Rule, e.Key), err)
		}
		return err
	}}
}

// ensureConnected connects unless a connection is open.
func (m *MQTT) ensureConnected(ctx context.Context) error {
	if m.client != nil && m.client.IsConnectionOpen() {
		return nil
	}
	m.close()
	id := m.ID
	if id == "" {
		id = "eusn-alarms-" + m.Job
	}
	o := paho.NewClientOptions().AddBroker(m.URL).SetClientID(id).SetUsername(m.User).SetPassword(m.Password).
		SetProtocolVersion(4).SetCleanSession(true).SetAutoReconnect(false).SetConnectTimeout(sendTimeout).SetWriteTimeout(sendTimeout)
	if m.TLS != nil {
		o.SetTLSConfig(m.TLS.Clone())
	}
	m.client = paho.NewClient(o)
	err := waitForBroker(ctx, m.client.Connect())
	if err == nil {
		m.Log.Info("mqtt: connected to the broker", "broker", urls.Redact(m.URL), "topics", Topic(m.Prefix, m.Job, "RULE", "KEY"))
		return nil
	}
	m.close()
	switch {
	case errors.Is(err, packets.ErrorRefusedIDRejected):
		return fmt.Errorf("%w: the broker requires another client id (alarms.mqtt_id)", err)
	case errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(err, packets.ErrorRefusedNotAuthorised):
		return fmt.Errorf("%w: check the login (alarms.mqtt_user, alarms.mqtt_password)", err)
	}
	return addAdvice(err)
}

// waitForBroker waits for the broker's answer.
func waitForBroker(ctx context.Context, t paho.Token) error {
	select {
	case <-t.Done():
		return t.Error()
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("no answer from the broker within %v", sendTimeout)
		}
		return ctx.Err()
	}
}

func (m *MQTT) close() {
	if m.client != nil {
		m.client.Disconnect(0)
		m.client = nil
	}
}
