package watchcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// subjectsOf returns the input subjects of a kind of machines of a NATS server: its patterns, or
// the subject of each machine if the patterns of two kinds overlap or take other messages. So each
// kind can have its own job. For too many machines it returns the subject filter, and the keys.
func subjectsOf(filter string, kinds []discover.Kind, k *discover.Kind) (subjects, keys string) {
	var all []string
	for i := range kinds {
		all = append(all, subjectsOfTopics(kinds[i].Topics))
	}
	if _, err := wire.ParsePattern(strings.Join(all, " ")); err == nil && k.Keys == "" {
		return subjectsOfTopics(k.Topics), ""
	}
	own := subjectsOfTopics(strings.Join(k.Own, ","))
	if len(k.Own) == 1 { // a single subject needs a wildcard
		own += " " + own + ".>"
	}
	p, err := wire.ParsePattern(filter)
	if _, tooMany := wire.ParsePattern(own); tooMany == nil || err != nil {
		return own, ""
	}
	var accepted []string
	for subject := range strings.SplitSeq(own, " ") {
		key, _ := p.Key(subject)
		accepted = append(accepted, key)
	}
	return filter, strings.Join(accepted, ",")
}

// subjectsOfTopics returns topics or their patterns as NATS subjects.
func subjectsOfTopics(topics string) string {
	return strings.NewReplacer("/", ".", "+", "*", ",", " ").Replace(topics)
}

var notInJob = regexp.MustCompile(`[^a-z0-9]+`)

// jobOf returns the name of a job after its folder: a NATS server may have several jobs.
func jobOf(dir string) string {
	const longest = 32
	if full, err := filepath.Abs(dir); err == nil {
		dir = filepath.Base(full)
	}
	name := "watch-" + strings.TrimPrefix(strings.Trim(notInJob.ReplaceAllString(strings.ToLower(dir), "-"), "-"), "watch-")
	if len(name) > longest {
		h := fnv.New32a()
		h.Write([]byte(dir))
		name = fmt.Sprintf("%s-%08x", strings.Trim(name[:longest-9], "-"), h.Sum32())
	}
	return strings.Trim(name, "-")
}

// checkServer refuses the job of a configuration if the NATS server has the job, or if another NATS
// stream takes its subjects: the stage would refuse them, after the learning.
func (w *watcher) checkServer(ctx context.Context, c config.Config) error {
	c.NATS.Password = cmp.Or(w.at.password, c.NATS.Password)
	b, err := server.Open(ctx, c, w.app.Logger(c.Log.Level, c.Log.Format))
	if err != nil {
		return err
	}
	defer b.Close()
	nc, js, err := b.Open(ctx, "eusn-stream/watch")
	if err != nil {
		return err
	}
	defer nc.Close()
	in := wire.InputStream(c.Job)
	if _, err := js.Stream(ctx, in); err == nil {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("the server has the job %s already, and the folder %s has no model of it", c.Job, w.o.dir), fmt.Sprintf("eusn-stream job delete --job %s, or --save with another folder", c.Job))
	}
	p, err := wire.ParsePattern(c.Input.Subject)
	if err != nil {
		return err
	}
	for _, subject := range p.Filters() {
		if taken, err := js.StreamNameBySubject(ctx, subject); err == nil {
			return cli.Fail(cli.ExitFailure, fmt.Errorf("the NATS stream %s takes messages of %s already, and a job needs its own NATS stream for its input", taken, names.Cut(subject, 100)), "a NATS server without this NATS stream, or a URL with a narrower subject")
		} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return cli.Fail(cli.ExitFailure, err, "a NATS server with JetStream")
		}
	}
	return nil
}
