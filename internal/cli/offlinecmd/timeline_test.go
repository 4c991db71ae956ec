package offlinecmd

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// shapes counts the elements of an SVG by name and color.
func shapes(t *testing.T, svg []byte) map[string]int {
	t.Helper()
	n := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if (a.Name.Local == "fill" || a.Name.Local == "stroke") && a.Value != "none" {
					n[e.Name.Local+" "+a.Value]++
				}
			}
		}
	}
}

// judged returns an evaluation of streams whose predictions are the given answers, as judged by the rule.
func judged(t *testing.T, rule string, classes []string, labels string, streams map[string][]outcome.Answer) ([]byte, alarm.Rules) {
	t.Helper()
	rules, err := alarm.ParseRules(map[string]string{"r": rule})
	if err != nil {
		t.Fatal(err)
	}
	ev := &offline.Evaluation{Dataset: "a<b", Classes: classes}
	var all []alarm.Known
	for _, name := range []string{"calm", "m&m"} {
		for i, answer := range streams[name] {
			p := offline.Prediction{ID: name, Position: int64(i + 1), Label: -1, Truth: float64(i), Answer: answer}
			k := alarm.Known{Prediction: codec.Prediction{Stream: name, Time: codec.NoTime, Answer: answer}, Stored: time.Unix(int64(i), 0)}
			if name == "m&m" && i < len(labels) && labels[i] == 'f' {
				k.Label = "worn"
			}
			ev.Predictions, all = append(ev.Predictions, p), append(all, k)
		}
	}
	r, err := alarm.Rehearse(rules, classes, all)
	if err != nil {
		t.Fatal(err)
	}
	return drawTimeline(ev, rules, all, r.Events), rules
}

// The picture has a box for each fault and for each alarm, and streams with alarms first.
func TestTimelineOfClasses(t *testing.T) {
	calm, worn := outcome.Answer{Class: 0}, outcome.Answer{Class: 1}
	svg, _ := judged(t, "class worn", []string{"normal", "worn"}, "nffnnfnn", map[string][]outcome.Answer{
		"calm": {calm, calm, calm},
		"m&m":  {calm, worn, worn, calm, calm, calm, worn, calm},
	})
	n := shapes(t, svg)
	const legend = 1
	if n["rect "+faultColor] != 2+legend || n["rect "+alarmColor] != 2+legend || n["rect "+healthyColor] != 2+legend {
		t.Errorf("%v in\n%s", n, svg)
	}
	text := string(svg)
	if first, second := strings.Index(text, "m&amp;m"), strings.Index(text, ">calm<"); first < 0 || first > second || !strings.Contains(text, "a&lt;b: 2 streams") {
		t.Errorf("order of streams, or the title:\n%s", svg)
	}
	from, to := fmt.Sprintf(`<rect x="%.1f"`, 170+806./8*2), fmt.Sprintf(`width="%.1f"`, 806./8*2) // raised at sample 2, cleared at 4
	if !strings.Contains(text, from+` y="82.0" `+to+` height="6.0" fill="`+alarmColor) {
		t.Errorf("want the first alarm at %s %s in\n%s", from, to, svg)
	}
}

// A replacing alarm begins at the end of the replaced alarm.
func TestTimelineOfWorse(t *testing.T) {
	var answers []outcome.Answer
	for _, v := range []float32{.5, 2, 2, 7, 7, .5, .5, .5} {
		answers = append(answers, outcome.Answer{Novelty: v, NoveltyP: map[bool]float32{true: .001, false: .5}[v > 1]})
	}
	svg, _ := judged(t, "novel 0.01, clear after 1", []string{"normal", "worn"}, "nffffnnn", map[string][]outcome.Answer{"calm": {{}}, "m&m": answers})
	for _, part := range []float64{2, 4} { // raised at samples 2 and 4, cleared at 6
		box := fmt.Sprintf(`<rect x="%.1f" y="82.0" width="%.1f" height="6.0" fill="`+alarmColor, 170+806./8*part, 806./8*2)
		if !strings.Contains(string(svg), box) {
			t.Errorf("want %s in\n%s", box, svg)
		}
	}
}

// The picture of numbers has a true and a predicted line for each stream, and only the first streams.
func TestTimelineOfNumbers(t *testing.T) {
	number := func(v float32) outcome.Answer {
		return outcome.Answer{Number: outcome.Number{Value: v, Low: v, High: v, Known: true}}
	}
	svg, _ := judged(t, "value < 5", []string{"remaining"}, "", map[string][]outcome.Answer{"calm": {number(9), number(8)}, "m&m": {number(9), number(3)}})
	n := shapes(t, svg)
	if n["path "+truthColor] != 2 || n["path "+valueColor] != 2 || n["rect "+alarmColor] != 1+1 {
		t.Errorf("%v in\n%s", n, svg)
	}
}
