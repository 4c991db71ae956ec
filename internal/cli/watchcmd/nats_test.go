package watchcmd_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Samples on subjects of a NATS server with JetStream.
func TestWatchNATS(t *testing.T) {
	t.Parallel()
	s := pipelinetest.Server(t, natsserver.Options{Port: -1})
	nc, _ := pipelinetest.Connect(t, s)
	p := plant{"test", 8, 3, 256, .3, 0, "lists", 32, "level", 5}
	var machines []*simulated
	for k := range p.machines {
		machines = append(machines, p.machine(k))
	}
	done := make(chan bool)
	defer close(done)
	go func() {
		for tick := time.NewTicker(125 * time.Millisecond); ; <-tick.C {
			select {
			case <-done:
				return
			default:
			}
			for k, m := range machines {
				columns := make([][]string, 3)
				for range p.rows {
					for i, v := range m.sample(false) {
						columns[i] = append(columns[i], number(v))
					}
				}
				nc.Publish(fmt.Sprintf("hall.m%02d", k), []byte(fmt.Sprintf(`{"a":[%s],"b":[%s],"c":[%s]}`, strings.Join(columns[0], ","), strings.Join(columns[1], ","), strings.Join(columns[2], ","))))
			}
		}
	}()
	w := startWatch(t, s.URL()+"/hall.*", "--learn", "5s", "--save", filepath.Join(t.TempDir(), "plant"))
	w.await(t, `"verdict"`, pipelinetest.Patience)
	w.end(t)
}
