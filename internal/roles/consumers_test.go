package roles_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/roles"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// caller calls the API of JetStream with the login of a role.
type caller struct {
	t       *testing.T
	nc      *nats.Conn
	answers *nats.Subscription
	refused chan string
}

func (p *plant) newCaller(t *testing.T, role roles.Role) *caller {
	t.Helper()
	c := &caller{t: t, refused: make(chan string, 16)}
	var err error
	if c.nc, err = nats.Connect(p.url, append(p.loginOptions(role), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.refused <- err.Error() }))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.nc.Close)
	if c.answers, err = c.nc.SubscribeSync(roles.InboxPrefix(string(role)) + ".answers"); err != nil {
		t.Fatal(err)
	}
	return c
}

// request reports whether the server allows a role's call, and returns the answer.
func (c *caller) request(subject, body string) (answer string, may bool) {
	c.t.Helper()
	if err := c.nc.PublishRequest(subject, c.answers.Subject, []byte(body)); err != nil {
		c.t.Fatal(err)
	}
	for timeout := time.Now().Add(pipelinetest.Patience); time.Now().Before(timeout); {
		select {
		case message := <-c.refused:
			if !strings.Contains(message, `"`+subject+`"`) {
				c.t.Fatalf("%s: %s", subject, message)
			}
			return message, false
		default:
		}
		if m, err := c.answers.NextMsg(5 * time.Millisecond); err == nil {
			return string(m.Data), true
		}
	}
	c.t.Fatalf("%s: neither an answer nor a refusal", subject)
	return "", false
}

// Each role calls the API to create, change, pause and delete consumers on a real server: its
// own consumers, and the consumer of an alarm output. A forbidden call changes nothing.
func TestConsumerCalls(t *testing.T) {
	p := newPlant(t)
	const s, g, w, r, a, l, m, o = roles.Sensor, roles.Gateway, roles.Stage, roles.Reader, roles.Analyst, roles.Labeler, roles.Alarms, roles.Operator
	readers := []roles.Role{w, r, a, l, m, o}
	if _, err := p.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-ALARMS", Subjects: []string{"eusn.alarm.>"}}); err != nil {
		t.Fatal(err)
	}
	webhook := jetstream.ConsumerConfig{Durable: "webhook", FilterSubject: "eusn.alarm.*.>", AckPolicy: jetstream.AckExplicitPolicy}
	before := func() {
		t.Helper()
		_ = p.js.DeleteConsumer(t.Context(), "EUSN-ALARMS", "webhook")
		if _, err := p.js.CreateConsumer(t.Context(), "EUSN-ALARMS", webhook); err != nil {
			t.Fatal(err)
		}
	}
	config := func(stream, after string) string {
		return fmt.Sprintf(`{"stream_name":%q,"config":{"ack_policy":"explicit","replay_policy":"instant",%s}}`, stream, after)
	}
	for _, c := range []struct {
		name, subject, body string // @ stands for the role's name
		may                 []roles.Role
	}{
		{"create", "$JS.API.CONSUMER.CREATE.EUSN-OUT.@", config("EUSN-OUT", `"name":"@","inactive_threshold":60000000000`), readers},
		{"look at it", "$JS.API.CONSUMER.INFO.EUSN-OUT.@", "", readers},
		{"pull", "$JS.API.CONSUMER.MSG.NEXT.EUSN-OUT.@", `{"no_wait":true}`, readers},
		{"pause it", "$JS.API.CONSUMER.PAUSE.EUSN-OUT.@", `{"pause_until":"2099-01-01T00:00:00Z"}`, []roles.Role{o}},
		{"reset it", "$JS.API.CONSUMER.RESET.EUSN-OUT.@", "", []roles.Role{o}},
		{"delete it", "$JS.API.CONSUMER.DELETE.EUSN-OUT.@", "", readers},
		{"create a durable one", "$JS.API.CONSUMER.CREATE.EUSN-OUT.@-stays", config("EUSN-OUT", `"name":"@-stays","durable_name":"@-stays"`), readers}, // the server has no setting to refuse this
		{"create a durable one by the old call", "$JS.API.CONSUMER.DURABLE.CREATE.EUSN-OUT.@-old", config("EUSN-OUT", `"durable_name":"@-old"`), []roles.Role{o}},
		{"create one of the input", "$JS.API.CONSUMER.CREATE.EUSN-IN.@", config("EUSN-IN", `"name":"@"`), []roles.Role{w, a, o}},
		{"create one of the alarms", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.@", config("EUSN-ALARMS", `"name":"@"`), []roles.Role{r, m, o}},
		{"list", "$JS.API.CONSUMER.LIST.EUSN-OUT", "", []roles.Role{o}},
		{"pause the output's", "$JS.API.CONSUMER.PAUSE.EUSN-ALARMS.webhook", `{"pause_until":"2099-01-01T00:00:00Z"}`, []roles.Role{m, o}},
		{"change the output's filter", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.webhook", config("EUSN-ALARMS", `"name":"webhook","durable_name":"webhook","filter_subject":"none"`), []roles.Role{m, o}},
		{"change the output's filter by the longer call", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.webhook.eusn.alarm.none", config("EUSN-ALARMS", `"name":"webhook","durable_name":"webhook","filter_subject":"eusn.alarm.none"`), []roles.Role{m, o}},
		{"let the output's be pushed", "$JS.API.CONSUMER.CREATE.EUSN-ALARMS.webhook", config("EUSN-ALARMS", `"name":"webhook","durable_name":"webhook","deliver_subject":"nowhere"`), []roles.Role{m, o}},
		{"take the output's events", "$JS.API.CONSUMER.MSG.NEXT.EUSN-ALARMS.webhook", `{"no_wait":true}`, []roles.Role{m, o}},
		{"delete the output's", "$JS.API.CONSUMER.DELETE.EUSN-ALARMS.webhook", "", []roles.Role{m, o}},
		{"change a NATS stream", "$JS.API.STREAM.UPDATE.EUSN-OUT", `{"name":"EUSN-OUT","subjects":["eusn.out.*"],"republish":{"src":">","dest":"x.>"}}`, []roles.Role{o}},
	} {
		for _, role := range roles.All {
			if strings.Contains(c.subject, "webhook") {
				before()
			}
			named := func(text string) string {
				return strings.ReplaceAll(text, "@", string(role))
			}
			answer, may := p.newCaller(t, role).request(named(c.subject), named(c.body))
			if may != slices.Contains(c.may, role) {
				t.Errorf("%s, %s: let through %v, want %v: %s", role, c.name, may, !may, answer)
			}
			if !may && strings.Contains(c.subject, "webhook") {
				cons, err := p.js.Consumer(t.Context(), "EUSN-ALARMS", "webhook")
				if err != nil {
					t.Errorf("%s, %s: %v", role, c.name, err)
				} else if state := cons.CachedInfo(); state.Paused || state.Config.FilterSubject != webhook.FilterSubject || state.Config.DeliverSubject != "" {
					t.Errorf("%s, %s: the output's consumer is %+v", role, c.name, state)
				}
			}
		}
	}
}

// The server does not check the publish rights for the delivery subject of a push consumer. It
// delivers only to subscribed subjects, so nothing is stored: no client subscribes to the
// subjects of a job's NATS streams. A subscriber would receive the messages; docs/secure.md
// documents this.
func TestPushConsumers(t *testing.T) {
	p := newPlant(t)
	if _, err := p.js.Publish(t.Context(), "eusn.out.0", []byte(`{"name":"EUSN-DLQ"}`)); err != nil {
		t.Fatal(err)
	}
	received, err := p.nc.SubscribeSync("elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	pushers := []roles.Role{roles.Stage, roles.Reader, roles.Analyst, roles.Labeler, roles.Alarms}
	for _, role := range pushers {
		c := p.newCaller(t, role)
		for i, target := range []string{"sensors.push", "eusn.out.1", "eusn.labels.x", "eusn.rows.0.0", "eusn.dlq.0", "$KV.EUSN-MEMBERS.x", "$JS.API.STREAM.PURGE.EUSN-OUT", "$JS.API.STREAM.DELETE.EUSN-OUT", "elsewhere"} {
			name := fmt.Sprint(role, i)
			body, err := json.Marshal(map[string]any{"stream_name": "EUSN-OUT", "config": map[string]any{
				"name": name, "deliver_subject": target, "ack_policy": "none", "deliver_policy": "all", "replay_policy": "instant"}})
			if err != nil {
				t.Fatal(err)
			}
			// The server refuses a cycle, and since 2.15.3 its own subjects.
			refused := target == "eusn.out.1" || strings.HasPrefix(target, "$JS.API.")
			if answer, may := c.request("$JS.API.CONSUMER.CREATE.EUSN-OUT."+name, string(body)); !may || strings.Contains(answer, `"error"`) != refused {
				t.Errorf("%s, to %s: refused by the server %v, want %v: %s", role, target, !refused, refused, answer)
			}
		}
		if _, err := received.NextMsg(pipelinetest.Patience); err != nil {
			t.Fatalf("%s: nothing is delivered at all: %v", role, err)
		}
	}
	messages := func(name string) uint64 {
		t.Helper()
		s, err := p.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return s.CachedInfo().State.Msgs
	}
	for name, want := range map[string]uint64{"EUSN-IN": 0, "EUSN-OUT": 1, "EUSN-LABELS": 0, "EUSN-ROWS": 0, "EUSN-DLQ": 0, "KV_EUSN-MEMBERS": 0} {
		if got := messages(name); got != want {
			t.Errorf("%s has %d messages, want %d", name, got, want)
		}
	}
	if _, err := p.nc.SubscribeSync("sensors.push"); err != nil {
		t.Fatal(err)
	}
	pipelinetest.Until(t, "what consumers deliver to a listener", func() bool { return messages("EUSN-IN") == uint64(len(pushers)) })
}
