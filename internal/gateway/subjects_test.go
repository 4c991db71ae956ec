package gateway

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// If the keys of a job have several tokens, the levels of a topic are these tokens. The
// numbers of a stream continue in the next run, read by the same subject.
func TestPlantSubjects(t *testing.T) {
	for subject, refused := range map[string]string{"plant.{site}.line.{line}.sensor.*": "want 3", "plant.>": ""} {
		t.Run(subject, func(t *testing.T) {
			p, err := wire.ParsePattern(subject)
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, func(c *jetstream.StreamConfig) {
				c.Subjects = []string{p.Filter()}
				c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: p.Filter(), Destination: p.Destination("eusn", 4)}
			})
			topics, err := ParseTopics("plant/+/line/+/sensor/+,loose/#")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			g := r.startGateway(dir, func(c *Config) { c.Subject = subject })
			send := func(topic string) error {
				t.Helper()
				key, err := topics.Key(topic)
				if err != nil {
					return err
				}
				return g.sendMessage(t.Context(), Message{Key: key, Payload: []byte("1 2")})
			}
			for range 2 {
				if err := send("plant/A/line/3/sensor/7"); err != nil {
					t.Fatal(err)
				}
				if err := send("plant/A3/line/7/sensor/x"); err != nil {
					t.Fatal(err)
				}
				g.endGateway(t)
				g = r.startGateway(dir, func(c *Config) { c.Subject = subject })
			}
			err = send("loose/A/3")
			if refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) || refused == "" && err != nil {
				t.Errorf("a topic of two levels: %v", err)
			}
			if err := send("plant/A.b/line/3/sensor/7"); err == nil || !strings.Contains(err.Error(), "dots") {
				t.Errorf("a level with a dot: %v", err)
			}
			g.endGateway(t)
			var stored []string
			for seq := uint64(1); seq <= 4; seq++ {
				m, err := r.in.GetMsg(t.Context(), seq)
				if err != nil {
					t.Fatal(err)
				}
				stored = append(stored, wire.KeyOf(m.Subject)+" "+m.Header.Get(wire.HeaderSeq))
			}
			slices.Sort(stored)
			if want := []string{"A.3.7 1", "A.3.7 2", "A3.7.x 1", "A3.7.x 2"}; !slices.Equal(stored, want) {
				t.Errorf("stored %q, want %q", stored, want)
			}
		})
	}
}

// If a job has several input subjects, a topic is a subject.
func TestTopicsOfSeveralSubjects(t *testing.T) {
	const subject = "plant.*.line.> press.{press}.vibration"
	p, err := wire.ParsePattern(subject)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *jetstream.StreamConfig) {
		c.Subjects = p.Subjects()
		c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: p.Source(), Destination: p.Destination("eusn", 4)}
	})
	topics, err := ParseTopics("#")
	if err != nil {
		t.Fatal(err)
	}
	g := r.startGateway(t.TempDir(), func(c *Config) { c.Subject = subject })
	send := func(topic string) error {
		t.Helper()
		key, err := topics.Key(topic)
		if err != nil {
			return err
		}
		return g.sendMessage(t.Context(), Message{Key: key, Payload: []byte("1 2")})
	}
	for _, topic := range []string{"plant/A/line/3", "press/7/vibration"} {
		if err := send(topic); err != nil {
			t.Error(err)
		}
	}
	for _, topic := range []string{"plant/A/line", "press/7", "hall/1"} {
		if err := send(topic); err == nil || !strings.Contains(err.Error(), "none of these takes it") {
			t.Errorf("topic %s: %v", topic, err)
		}
	}
	g.endGateway(t)
	var stored []string
	for seq := uint64(1); seq <= 2; seq++ {
		m, err := r.in.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, wire.KeyOf(m.Subject)+" "+m.Header.Get(wire.HeaderSeq))
	}
	slices.Sort(stored)
	if want := []string{"plant.A.line.3 1", "press.7.vibration 1"}; !slices.Equal(stored, want) {
		t.Errorf("stored %q, want %q", stored, want)
	}
}

// Messages of another broker for other streams are left out, readable or not: the gateway has
// selected its streams. Devices of the gateway get a refusal.
func TestKeysSelect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	keys, err := names.ParsePatterns("pump*,line1/*")
	if err != nil {
		t.Fatal(err)
	}
	g := r.startGateway(t.TempDir(), func(c *Config) { c.Keys = keys })
	for _, m := range []Message{{Input: Broker, Key: "mill1", Payload: []byte("1 2")}, {Input: Broker, Key: "mill1", Payload: []byte("no")}} {
		if err := g.sendMessage(t.Context(), m); err == nil || !strings.Contains(err.Error(), `"mill1" is none of input.keys`) {
			t.Errorf("%s of mill1: %v", m.Payload, err)
		}
	}
	if s := g.Stats(); s.Refused["broker"] != 0 || s.Unreadable != 0 || g.book.Lines("are left out") != 1 || g.book.Lines("") != 1 {
		t.Errorf("%d messages of other streams are refused, %d unreadable, want 0; the log:\n%s", s.Refused["broker"], s.Unreadable, g.book)
	}
	for _, m := range []Message{{Input: MQTT, Key: "mill1", Payload: []byte("1 2")}, {Input: Broker, Key: "line1", Payload: []byte("no")}} {
		if err := g.sendMessage(t.Context(), m); err == nil || g.Stats().Refused[m.Input.String()] != 1 {
			t.Errorf("a message of %s by %v: %v, %v refused", m.Key, m.Input, err, g.Stats().Refused)
		}
	}
	if err := g.sendMessage(t.Context(), Message{Input: Broker, Key: "pump1", Payload: []byte("1 2")}); err != nil {
		t.Error(err)
	}
}
