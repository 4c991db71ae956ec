package pipeline_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// startConfigured starts a server with a configuration file's text, and returns its address.
func startConfigured(t *testing.T, text string) string {
	t.Helper()
	return serveConfigured(t, "listen: 127.0.0.1:-1\njetstream { store_dir: \""+t.TempDir()+"\" }\n"+text)
}

// serveConfigured is configured, with nothing but text.
func serveConfigured(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	return pipelinetest.Serve(t, o).Addr().String()
}

// rigAs returns a rig whose connections log in as a user, with the name as password.
func rigAs(t *testing.T, addr, user string, book *pipelinetest.LogBook) *rig {
	t.Helper()
	b := &rig{t: t, url: "nats://" + user + ":" + user + "@" + addr, inbox: "_INBOX." + user, log: book.Logger()}
	var err error
	if b.nc, err = b.dialServer(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.nc.Close)
	if b.js, err = jetstream.New(b.nc); err != nil {
		t.Fatal(err)
	}
	return b
}

// A stage needs no more rights than docs/nats.md lists, and neither does a producer:
// with states that leave and return, snapshots, dead letters, a crash and a stop.
func TestDocumentedPermissions(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	accounts := regexp.MustCompile("(?s)```\n(accounts \\{.*?\n\\}\n)```").FindSubmatch(doc)
	if accounts == nil {
		t.Fatal("docs/nats.md has no accounts")
	}
	addr := startConfigured(t, strings.NewReplacer("$STAGE", "stage", "$SETUP", "setup", "$SENSOR", "sensor").Replace(string(accounts[1])))
	book := &pipelinetest.LogBook{}
	setup, stage, sensor := rigAs(t, addr, "setup", book), rigAs(t, addr, "stage", book), rigAs(t, addr, "sensor", book)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Partitions: 2, Shards: 1, MaxSlots: 2, SnapshotEvery: 20 * time.Millisecond}
	setup.startStage(m, c).stopStage(t)

	stage.js = setup.js // the test's own connection
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	r := stage.startStage(m, c)
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			for _, key := range keys {
				sensor.publishPackets([]pipelinetest.Packet{pipelinetest.One(key, uint64(i), 3, float32(i), i == 6)})
			}
		}
	}
	publish(1, 4)
	sensor.publishPackets([]pipelinetest.Packet{{Key: "bad", Raw: []byte("x")}})
	stage.settleMessages(r, 3*len(keys)+1)
	waitFor(t, "rows that left", func() bool { return r.counters.Stats().Spilled > 0 })
	waitFor(t, "a snapshot", func() bool { return r.counters.Stats().Snapshots > 0 })
	r.crashStage(t)
	stage.expireMembers(c.WithDefaults().Job)
	r = stage.startStage(m, c)
	publish(4, 6)
	stage.settleMessages(r, 5*len(keys)+1)
	r.stopStage(t)
	r = stage.startStage(m, c)
	if n := r.counters.Stats().Restores; n != 2 {
		t.Errorf("%d partitions began from a snapshot, want 2", n)
	}
	publish(6, 7)
	stage.settleMessages(r, 6*len(keys)+1)
	r.stopStage(t)
	follower := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	follower.Readouts[0].Weights[0]++
	stage.startStage(follower, c).stopStage(t) // reads the job's model from its registry
	if n := len(stage.readPredictions(c.WithDefaults().Job)); n != len(keys) {
		t.Errorf("predictions of %d streams, want %d", n, len(keys))
	}
	if n := len(stage.deadLetters(c.WithDefaults().Job)); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
	if book.Lines("violation") > 0 {
		t.Errorf("rights were missing:\n%s", book)
	}
	for _, inbox := range []string{"_INBOX.>", "_INBOX.*", "_INBOX.stage.>", "_INBOX.*.>", ">"} { // samples of other jobs are delivered there
		heard, err := sensor.nc.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		if err := sensor.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the refusal of "+inbox, func() bool { return book.Lines("Subscription to \\\""+inbox) > 0 || !heard.IsValid() })
	}
}

// With a login that lacks the right to flow control, each partition reads with its own
// consumer, and none waits.
func TestWithoutFlowControl(t *testing.T) {
	t.Parallel()
	const without = `permissions: { subscribe: ">", publish: { allow: [">"], deny: ["$JS.FC.EUSN-IN.>"] } }`
	addr := startConfigured(t, `accounts { A { jetstream: enabled, users: [{user: u, password: u, `+without+`}] } }`)
	book := &pipelinetest.LogBook{}
	b := rigAs(t, addr, "u", book)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	r := b.startStage(m, pipeline.Config{Partitions: 2})
	packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(8, 40), 5)
	b.publishPackets(packets)
	b.settleMessages(r, len(packets))
	waitFor(t, "the refusal", func() bool { return book.Lines("$JS.FC.EUSN-IN.") > 0 })
	r.waitForReads(t, 0)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("more", 1, 3, 1, true)})
	b.settleMessages(r, len(packets)+1)
	r.stopStage(t)
}

// An error about a job's NATS streams names the missing right or limit of the account.
func TestAccountLimits(t *testing.T) {
	t.Parallel()
	addr := startConfigured(t, `accounts { A { jetstream { max_file: 1G, max_streams: 4 }, users: [{user: u, password: u}] } }`)
	b := rigAs(t, addr, "u", &pipelinetest.LogBook{})
	s := pipeline.Worker{Job: pipeline.Job{Config: pipeline.Config{Partitions: 1}, Model: pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), NewEngine: pipelinetest.Generic, Dial: b.dialServer}}
	mentions(t, s.Run(t.Context()), "maximum number of streams", "a job needs 7 NATS streams", "max_streams")
}
