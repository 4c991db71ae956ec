package watchcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Files of the folder.
const (
	configName = "eusn-stream.yaml"
	modelName  = "model.safetensors"
)

// Default ports of the live page and of the embedded server.
const pagePort, serverPort = 9464, 4222

// freePort returns the first port, not before from, without a listening program of this machine.
func freePort(from int) int {
	for ; ; from++ {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(from)), time.Second)
		if err != nil {
			return from
		}
		c.Close()
	}
}

// saved is a configuration with its model.
type saved struct {
	conf  config.Config
	model *reservoir.Model
}

// checkFolder refuses a folder with other files.
func checkFolder(dir string) error {
	found, err := os.ReadDir(dir)
	if err == nil && len(found) > 0 {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("the folder %s has other files, and no configuration of watch", dir), "--save with a new folder")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cli.Fail(cli.ExitFailure, err, "--save with a new folder")
	}
	return nil
}

// configText is the configuration of the machines, without the rules.
func (w *watcher) configText(base config.Gateway, k *discover.Kind, channels []string) string {
	var b strings.Builder
	line := func(indent int, key, value string) {
		fmt.Fprintf(&b, "%s%s: %s\n", strings.Repeat(" ", indent), key, value)
	}
	fmt.Fprintf(&b, "# Written by eusn-stream watch on %s. Start with: eusn-stream run, in this folder.\n", time.Now().UTC().Format(time.DateOnly))
	line(0, "model", modelName)
	if w.at.scheme == schemeNATS {
		line(0, "job", jobOf(w.o.dir))
	} else if w.o.kind > 1 {
		line(0, "job", fmt.Sprintf("kind%d", w.o.kind))
	}
	if page := freePort(pagePort + w.o.kind - 1); page != pagePort { // next to stages of other kinds and plants
		line(0, "metrics", fmt.Sprintf("{listen: \"127.0.0.1:%d\"}", page))
	}
	b.WriteString("input:\n")
	if w.at.scheme == schemeNATS {
		own := *k
		var subjects string
		subjects, own.Keys = subjectsOf(w.at.filter, w.kinds, k)
		line(2, "subject", fmt.Sprintf("%q", subjects))
		k = &own
	}
	if k != nil {
		writeInput(line, k, channels)
	}
	line(2, "non_finite", "hold")
	switch {
	case w.at.scheme == schemeNATS:
		b.WriteString("nats:\n")
		line(2, "url", fmt.Sprintf("%q", w.at.server))
		if w.at.user != "" {
			line(2, "user", fmt.Sprintf("%q", w.at.user))
		}
		return b.String()
	case w.at.scheme == schemeOPCUA:
		b.WriteString(w.opcuaText(base, k, channels))
	case k != nil:
		b.WriteString("gateway:\n")
		line(2, "broker", fmt.Sprintf("%q", w.at.server))
		line(2, "broker_id", newID())
		if w.at.user != "" {
			line(2, "broker_user", fmt.Sprintf("%q", w.at.user))
		}
		line(2, "topics", fmt.Sprintf("%q", k.Topics))
		line(2, "outbox", "outbox")
		if k.Single {
			line(2, "values", "true")
		}
	}
	b.WriteString("server:\n")
	line(2, "dir", "data")
	if w.o.kind > 1 || freePort(serverPort) != serverPort {
		line(2, "port", "-1")
	}
	return b.String()
}

// writeInput writes the places of a kind's values in its messages.
func writeInput(line func(indent int, key, value string), k *discover.Kind, channels []string) {
	if k.Keys != "" {
		line(2, "keys", fmt.Sprintf("%q", k.Keys))
	}
	var sources []string
	for _, c := range channels {
		if from := k.Sources[c]; from != "" {
			sources = append(sources, fmt.Sprintf("%q: %q", c, from))
		}
	}
	if len(sources) > 0 {
		line(2, "channels", "{"+strings.Join(sources, ", ")+"}")
	}
	if k.Time != "" {
		line(2, "time", fmt.Sprintf("%q", k.Time))
		line(2, "time_unit", k.TimeUnit)
	}
	if k.TimeStep > 0 {
		line(2, "time_step", k.TimeStep.String())
	}
	if k.Stream != "" {
		line(2, "stream", fmt.Sprintf("%q", k.Stream))
	}
}

// save writes the folder.
func (w *watcher) save(l *learned, text string) (*saved, error) {
	text += "alarms:\n  rules:\n"
	for _, name := range slices.Sorted(maps.Keys(l.rules)) {
		text += fmt.Sprintf("    %s: %q\n", name, l.rules[name])
	}
	err := os.MkdirAll(w.o.dir, 0o755)
	if err == nil {
		err = l.model.Save(filepath.Join(w.o.dir, modelName))
	}
	if err == nil {
		err = durable.Write(filepath.Join(w.o.dir, configName), []byte(text), 0o644)
	}
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, "--save with a folder that can be written")
	}
	n := l.report.Novelty
	w.out.say("learned %d windows of %s, a verdict every %s; of %d later healthy windows none had a p-value below %.3g", n.Sequences, spanText(float64(l.model.Policy.Length)/l.rate), spanText(float64(l.model.Policy.Hop)/l.rate), len(l.later), l.level)
	w.out.say("saved in %s; next time: cd %s && eusn-stream run", w.o.dir, cli.QuoteForShell(w.o.dir))
	w.out.event("saved", map[string]any{"folder": w.o.dir, "windows": n.Sequences, "window_seconds": float64(l.model.Policy.Length) / l.rate, "rate": l.rate, "next": "cd " + cli.QuoteForShell(w.o.dir) + " && eusn-stream run"})
	return w.loadSaved()
}

// loadSaved reads the folder as run does in it.
func (w *watcher) loadSaved() (*saved, error) {
	path := filepath.Join(w.o.dir, configName)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Fail(cli.ExitConfig, err, "another folder")
	}
	c, err := config.Load(path, raw, w.o.flags, keyFlags)
	if err != nil {
		return nil, cli.Fail(cli.ExitConfig, err, "delete the folder "+w.o.dir+" to learn again")
	}
	for _, p := range []*string{&c.Model, &c.Server.Dir, &c.Gateway.Outbox} {
		if !filepath.IsAbs(*p) {
			*p = filepath.Join(w.o.dir, *p)
		}
	}
	c.Gateway.BrokerPassword = cmp.Or(w.at.password, c.Gateway.BrokerPassword)
	c.Gateway.OPCUA.Password = cmp.Or(w.at.password, c.Gateway.OPCUA.Password)
	if w.at.scheme == schemeNATS {
		c.NATS.Password = cmp.Or(w.at.password, c.NATS.Password)
	}
	m, err := models.Load(c.Model)
	return &saved{c, m}, err
}
