package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// A consumer that somebody has paused delivers nothing, and the worker hears nothing of what
// waits. The lag comes from the server all the same: the report does not say that all is up
// to date.
func TestLagOfPausedConsumers(t *testing.T) {
	for _, workers := range []int{1, 2} { // one reads all partitions by one consumer
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for range workers {
				r.start(testModel(t), pipeline.Config{Partitions: 4})
			}
			r.until("workers that read", func(rep *fleet.Report) bool {
				for i := range rep.Processes {
					if rep.Processes[i].Stage.Phases["reading"] != 4/workers {
						return false
					}
				}
				return len(rep.Processes) == workers && rep.Partitions.Phases["reading"] == 4
			})
			for i := range 8 {
				r.publish(fmt.Sprint("k", i), 5)
			}
			r.until("answers", func(rep *fleet.Report) bool {
				return rep.Lag.Answered >= 0 && rep.Lag.Messages == 0 && rep.Lag.Behind != nil && *rep.Lag.Behind == 0
			})
			in, err := r.js.Stream(t.Context(), "EUSN-IN")
			if err != nil {
				t.Fatal(err)
			}
			names := in.ConsumerNames(t.Context())
			n := 0
			for name := range names.Name() {
				if _, err := in.PauseConsumer(t.Context(), name, time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n == 0 || names.Err() != nil {
				t.Fatalf("%d consumers, %v", n, names.Err())
			}
			for i := range 8 {
				r.publish(fmt.Sprint("k", i), 5)
			}
			published := time.Now()
			rep := r.until("the lag of messages that no consumer delivers", func(rep *fleet.Report) bool {
				if time.Since(published) > 9*time.Second { // then the worker makes new consumers
					t.Fatalf("%q: %+v", rep.Verdict, rep.Lag)
				}
				return rep.Lag.Behind != nil && *rep.Lag.Behind > 5
			})
			if rep.Level != fleet.Attention || !strings.Contains(rep.Verdict, " behind: ") || rep.Lag.Messages == 0 || rep.Lag.Unknown != 0 {
				t.Errorf("%s: %q: %+v", rep.Level, rep.Verdict, rep.Lag)
			}
		})
	}
}
