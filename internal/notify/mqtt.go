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

// MQTT publishes the events of a job's alarms to a broker with QoS 1, one after the
// other, each at least once. The server remembers how far it is. It speaks MQTT 3.1.1,
// which brokers of MQTT 5 speak, too.
type MQTT struct {
	Job            string
	URL            string // tcp://, ssl://, ws:// or wss:// with host and port
	ID             string // of the client; empty = eusn-alarms-JOB
	User, Password string
	Prefix         string // of the topics, see Topic
	Retain         bool   // the broker keeps the last event of each alarm
	TLS            *tls.Config
	First          time.Duration // wait after the first failure, twice as long each time; 0 = a second
	Log            *slog.Logger

	client paho.Client // nil = none
	closed struct {    // the broker has ended the connection when this event was published
		event uint64
		times int
	}
}

// mostClosed is how often in a row a broker may end the connection when an event is
// published, before that is left out: MQTT 3.1.1 has no other way to forbid a topic. With
// the waits between, that is a minute and a half, in which a broker has started again.
const mostClosed = 10

// CheckBroker says what is wrong with the address of a broker.
func CheckBroker(address string) error {
	if _, err := urls.Parse(address, "tcp", "mqtt", "ssl", "tls", "mqtts", "ws", "wss"); err == nil {
		return nil
	}
	return fmt.Errorf("notify: broker %q: want a URL such as tcp://host:1883, ssl://host:8883, ws://host/path or wss://host/path", urls.Redact(address))
}

// CheckPrefix says what is wrong with the beginning of topics.
func CheckPrefix(prefix string) error {
	if prefix == "" || prefix[0] == '/' || prefix[0] == '$' || strings.HasSuffix(prefix, "/") || strings.ContainsAny(prefix, "+#\x00") || len(prefix) > 1024 {
		return fmt.Errorf("notify: prefix %q of topics: want words with / between, such as plant/alarms, without + and #", prefix)
	}
	return nil
}

// Topic is where the events of an alarm go: PREFIX/JOB/alarm/RULE/KEY. It is the event's
// subject with / for dots, as NATS itself says it to clients of MQTT, behind the prefix.
func Topic(prefix, job, rule, key string) string {
	return prefix + "/" + strings.ReplaceAll(wire.AlarmSubject(job, rule, alarm.Token(key)), ".", "/")
}

// Begin is Output's.
func (m *MQTT) Begin(ctx context.Context, nc *nats.Conn) error {
	if err := errors.Join(CheckBroker(m.URL), CheckPrefix(m.Prefix)); err != nil {
		return err
	}
	return m.queue().begin(ctx, nc)
}

// Run is Output's.
func (m *MQTT) Run(ctx context.Context, nc *nats.Conn) error {
	one := *m // with a connection of its own
	defer one.close()
	return one.queue().run(ctx, nc)
}

func (m *MQTT) queue() *queue {
	return &queue{job: m.Job, name: wire.OutputMQTT, first: m.First, log: m.Log, ready: m.ready, send: func(ctx context.Context, e *alarm.Event, data []byte) error {
		if err := m.ready(ctx); err != nil {
			return err
		}
		err := await(ctx, m.client.Publish(Topic(m.Prefix, m.Job, e.Rule, e.Key), 1, m.Retain, data))
		if err == nil {
			m.closed.times = 0
			return nil
		}
		ended := !m.client.IsConnectionOpen()
		m.close() // what is under way there is not known: it is sent again
		if !ended || ctx.Err() != nil {
			return err
		}
		if m.closed.event != e.Number {
			m.closed.event, m.closed.times = e.Number, 0
		}
		if m.closed.times++; m.closed.times >= mostClosed {
			return fmt.Errorf("%w: the broker ended the connection %d times when it was published to %s: may this login publish there? %w", errUnwanted, m.closed.times, Topic(m.Prefix, m.Job, e.Rule, e.Key), err)
		}
		return err
	}}
}

// ready connects, where there is no connection.
func (m *MQTT) ready(ctx context.Context) error {
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
	err := await(ctx, m.client.Connect())
	if err == nil {
		m.Log.Info("mqtt: connected to the broker", "broker", urls.Redact(m.URL), "topics", Topic(m.Prefix, m.Job, "RULE", "KEY"))
		return nil
	}
	m.close()
	switch {
	case errors.Is(err, packets.ErrorRefusedIDRejected):
		return fmt.Errorf("%w: the broker wants another client id (alarms.mqtt_id)", err)
	case errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(err, packets.ErrorRefusedNotAuthorised):
		return fmt.Errorf("%w: is the login right (alarms.mqtt_user, alarms.mqtt_password)?", err)
	}
	return advised(err)
}

// await waits for the broker's answer.
func await(ctx context.Context, t paho.Token) error {
	select {
	case <-t.Done():
		return t.Error()
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("the broker does not answer within %v", sendTimeout)
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
