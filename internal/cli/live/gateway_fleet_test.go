package live_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// fleet is one mosquitto_pub for each device, which sends its lines in order.
type fleet struct {
	p    *plant
	port string // of the broker
	all  []sent
	// quick: without the pace of sensors
	quick bool

	mu      sync.Mutex
	acked   []int // lines, by device
	total   int
	doubt   int // ends of a mosquitto_pub with unacknowledged lines
	stop    chan struct{}
	running sync.WaitGroup
}

const (
	underWay = 40                    // lines of a device without an acknowledgement
	pace     = 40 * time.Millisecond // between two lines of a device: 25 samples a second
)

// resume lets devices send, each from its first unacknowledged line.
func (f *fleet) resume() {
	f.stop = make(chan struct{})
	for d := range f.all {
		stop := f.stop
		f.running.Go(func() {
			for f.left(d) && !over(stop) {
				if err := f.publish(d, stop); err != nil {
					f.p.T.Error(err)
					return
				}
			}
		})
	}
}

// pause returns when every device has the acknowledgements of all sent lines.
func (f *fleet) pause() {
	close(f.stop)
	f.running.Wait()
}

func over(stop chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

func (f *fleet) left(d int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked[d] < len(f.all[d].lines)
}

// publish runs mosquitto_pub, which prints each PUBACK (stdbuf: immediately), until it
// ends, or has the acknowledgements of all lines or of the lines sent before stop.
func (f *fleet) publish(d int, stop chan struct{}) error {
	cmd := exec.Command("stdbuf", "-oL", "mosquitto_pub", "-d", "-l", "-q", "1", "-c", "-i", fmt.Sprint("device", d), "-h", "127.0.0.1", "-p", f.port, "-t", "plant/A/sensor/"+strings.TrimPrefix(f.all[d].key, "A/"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.mu.Lock()
	first := f.acked[d]
	f.mu.Unlock()
	room, ended := make(chan struct{}, underWay), make(chan struct{})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			// Its two threads may write on the same line.
			for range strings.Count(s.Text(), "received PUBACK") {
				f.mu.Lock()
				f.acked[d]++
				f.total++
				f.mu.Unlock()
				<-room
			}
		}
	}()
	sent := first
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for done := false; !done && sent < len(f.all[d].lines); {
		select {
		case <-stop:
			done = true
		case <-ended:
			done = true
		case room <- struct{}{}:
			if _, err := io.WriteString(in, f.all[d].lines[sent]+"\n"); err != nil {
				done = true
			}
			if sent++; !f.quick {
				<-tick.C
			}
		}
	}
	in.Close()
	<-ended
	cmd.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.acked[d] < sent {
		f.doubt++
	}
	return nil
}

// reach returns when n lines are acknowledged.
func (f *fleet) reach(n int) {
	f.p.T.Helper()
	last, since := -1, time.Now()
	for {
		f.mu.Lock()
		total := f.total
		f.mu.Unlock()
		if total >= n {
			return
		}
		if total != last {
			last, since = total, time.Now()
		} else if time.Since(since) > planttest.Quiet {
			f.p.T.Fatalf("%d lines are acknowledged, and no more for %v; the logs are in %s", total, planttest.Quiet, f.p.Dir)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killBroker kills mosquitto after it has saved; if behind, with a queue for a killed
// gateway. Otherwise its queue is empty: mosquitto does not mark (DUP) messages sent
// after its save that were in its queue then.
func (f *fleet) killBroker(behind bool) {
	gateway, broker := f.p.Services["gateway"], f.p.Services["mosquitto"]
	if behind {
		gateway.Kill(true)
		f.mu.Lock()
		n := min(f.total+20*len(f.all), len(f.all)*len(f.all[0].lines))
		f.mu.Unlock()
		f.reach(n)
	}
	f.pause()
	if !behind {
		f.p.still()
	}
	f.p.saved()
	broker.Kill(false)
	time.Sleep(planttest.Restarting)
	f.p.AwaitPort(f.port)
	gateway.Release()
	f.resume()
}

// fullInput lets the job's input be full for a while. If kill, the gateway is
// killed meanwhile.
func (f *fleet) fullInput(how time.Duration, kill bool) {
	f.p.full(true)
	f.p.Await("that the gateway holds back", func() bool { return f.p.HasLogged("gateway", "the job's input is full") })
	time.Sleep(how / 2)
	if kill {
		f.p.Services["gateway"].Kill(false)
	}
	time.Sleep(how / 2)
	f.p.full(false)
}
