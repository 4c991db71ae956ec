package demo

import (
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
	"github.com/eusn-stream/eusn-stream/offline"
)

// Report is the demo's result as JSON.
type Report struct {
	*offline.Evaluation
	Streams       int     `json:"streams"`
	LiveRows      uint64  `json:"live_rows"`
	LiveSeconds   float64 `json:"live_seconds"`
	RowsPerSecond float64 `json:"live_rows_per_second"`
	Live          int     `json:"live_predictions"` // early ones, too
	Equal         int     `json:"live_predictions_equal_offline"`
	Seconds       float64 `json:"seconds"`
}

// demoResult prints the live result and holds every live prediction against
// the offline evaluation.
func demoResult(a *cli.App, live *liveResult, ev *offline.Evaluation, spent time.Duration) error {
	differences := compare(live.predictions, ev.Predictions)
	equal := len(ev.Predictions) - len(differences)
	if a.JSON {
		err := a.PrintJSON(Report{ev, live.streams, live.stats.Rows, live.seconds, float64(live.stats.Rows) / live.seconds, len(ev.Predictions), equal, spent.Seconds()})
		if err != nil {
			return err
		}
	} else {
		a.Print("\n%s", offlinecmd.ConfusionText(ev.Classes, liveConfusion(live.predictions, ev)))
		a.Print("\nlive: %d samples of %d streams in %.1f s, %.0f samples/s", live.stats.Rows, live.streams, live.seconds, float64(live.stats.Rows)/live.seconds)
		if right, labeled := liveRight(live.predictions, ev, true); labeled > 0 {
			a.Print("early live accuracy %.4f of %d predictions", float64(right)/float64(labeled), labeled)
		}
		right, labeled := liveRight(live.predictions, ev, false)
		a.Print("live accuracy %.4f", float64(right)/float64(max(1, labeled)))
		if e := ev.Early; e != nil && e.Decided != nil {
			a.Print("%s", offlinecmd.DecidedText(*e.Decided))
		}
		a.Print("%d of %d predictions equal the offline evaluation", equal, len(ev.Predictions))
	}
	if len(differences) == 0 {
		a.Say("demo succeeded after %.1f s", spent.Seconds())
		return nil
	}
	for _, d := range differences[:min(5, len(differences))] {
		fmt.Fprintln(a.Stderr, d)
	}
	return cli.Fail(cli.ExitIntegrity, fmt.Errorf("%d live predictions DIFFER from the offline evaluation; this is a bug, please report it", len(differences)),
		"eusn-stream doctor, and send its output with the report")
}

// compare describes each live prediction that differs from the offline prediction, in bits or flags.
func compare(live []codec.Prediction, want []offline.Prediction) []string {
	var out []string
	for k, w := range want {
		if p := &live[k]; !p.Equal(&w.Answer) {
			out = append(out, fmt.Sprintf("%s, sample %d: live class %d, scores %v, probability %v, flags %q; offline class %d, scores %v, probability %v, flags %q",
				w.ID, w.Position, p.Class, p.Scores, p.Probability, p.Flags, w.Class, w.Scores, w.Probability, w.Flags))
		}
	}
	return out
}

func liveConfusion(live []codec.Prediction, ev *offline.Evaluation) [][]int {
	m := make([][]int, len(ev.Classes))
	for i := range m {
		m[i] = make([]int, len(ev.Classes))
	}
	for k, w := range ev.Predictions {
		if w.Label >= 0 && live[k].Class >= 0 && ev.Counts(&w) {
			m[w.Label][live[k].Class]++
		}
	}
	return m
}

// liveRight counts the live predictions with a label and the right ones among them: the predictions of the accuracy,
// or the early ones.
func liveRight(live []codec.Prediction, ev *offline.Evaluation, early bool) (right, labeled int) {
	for k, w := range ev.Predictions {
		if w.Label >= 0 && ev.Counts(&w) != early {
			labeled++
			if int(live[k].Class) == w.Label {
				right++
			}
		}
	}
	return right, labeled
}
