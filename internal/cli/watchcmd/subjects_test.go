package watchcmd

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// The subjects of two kinds never overlap, and include new machines if possible.
func TestSubjectsOf(t *testing.T) {
	messages := func(channel string, topics ...string) (all []discover.Message) {
		for _, topic := range topics {
			all = append(all, discover.Message{Topic: topic, Payload: []byte(fmt.Sprintf(`{"x": 1, %q: 2}`, channel)), At: time.Unix(1, 0)})
		}
		return all
	}
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf("h/p%02d", i))
	}
	for name, c := range map[string]struct {
		filter string
		a, b   []string // topics
		want   string   // of a, and of b
	}{
		"one kind":              {"h.>", []string{"h/a/1", "h/a/2"}, nil, "h.a.*"},
		"a first token":         {">", []string{"a/t", "b/t"}, nil, "a.t b.t"},
		"different levels":      {"h.>", []string{"h/a/1", "h/a/2"}, []string{"h/b/1"}, "h.a.*, h.b.*"},
		"common levels":         {"h.*", []string{"h/p1", "h/p2"}, []string{"h/m1"}, "h.p1 h.p2, h.m1 h.m1.>"},
		"patterns that overlap": {"h.>", []string{"h/a/1", "h/b/1"}, []string{"h/c/2", "h/c/3"}, "h.a.1 h.b.1, h.c.2 h.c.3"},
		"too many machines":     {"h.*", many, []string{"h/m1"}, "h.* with " + strings.ReplaceAll(strings.Join(many, ","), "h/", "") + ", h.m1 h.m1.>"},
	} {
		l := discover.Find(append(messages("a", c.a...), messages("b", c.b...)...))
		var got []string
		for i := range l.Kinds {
			subjects, keys := subjectsOf(c.filter, l.Kinds, &l.Kinds[i])
			if _, err := wire.ParsePattern(subjects); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if keys != "" {
				subjects += " with " + keys
			}
			got = append(got, subjects)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

func TestJobOf(t *testing.T) {
	for dir, want := range map[string]string{
		"a/Plant 2": "watch-plant-2", "watch-10.0.0.5-plant-kind2": "watch-10-0-0-5-plant-kind2", "a.b": "watch-a-b",
		"watch-nats.factory.example-plant-kind2": "watch-nats-factory-exam-0e05ab8e", "watch-nats.factory.example-plant-kind3": "watch-nats-factory-exam-0f05ad21",
	} {
		if got := jobOf(dir); got != want {
			t.Errorf("%s: job %s, want %s", dir, got, want)
		}
	}
}

func TestFreePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	if got := freePort(taken); got <= taken {
		t.Errorf("port %d is chosen, and %d is taken", got, taken)
	}
}
