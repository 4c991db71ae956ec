package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// faultCase is a section of a script and the condition on its output.
type faultCase struct {
	name, must, script string
	args               []string
	holds              func(out string) bool
}

const (
	nothingWrong = "no prediction is wrong or doubled without a flag"
	allRight     = "every prediction is made, once and right"
)

// faultCases are what strangers did to a job: to its store, its processes, its outbox, its
// labels, recordings and models.
func (r *rig) faultCases() []faultCase {
	loss := func(out string) bool { return noneWrong(out) && strings.Contains(out, "level=") }
	all := []faultCase{
		{"F1 emptied, no numbers", nothingWrong + ", and a line reports the loss", "wipe.sh", []string{"-nonum"}, loss},
		{"F1 emptied, numbers", nothingWrong + ", and a line reports the loss", "wipe.sh", nil, loss},
		{"F2 1,100 partitions", "no partition is stopped, and every prediction is made", "many.sh", []string{"1100"},
			func(out string) bool { return strings.Contains(out, "stopped 0") && lastOK(out) }},
		{"F2 300, crashes", "no partition is stopped for good, and every prediction is made", "permanence.sh", []string{"300"}, lastOK},
		{"F2 300, crash loop", "every prediction is made after six crashes of both workers", "crashloop.sh", []string{"300"}, lastOK},
		{"F1 emptied in a cluster", nothingWrong + ", and a line reports the loss", "cluster.sh", []string{"r1"}, loss},
		{"F3 damaged outbox", nothingWrong, "gateway2.sh", []string{"corrupt2"}, noneWrong},
		{"numbers that wrap", nothingWrong, "long.sh", []string{"wrap"}, noneWrong},
		{"damaged outbox, eight times", nothingWrong, "gateway.sh", []string{"corrupt"}, noneWrong},
		{"4,096 partitions", allRight + ", also after a kill", "long.sh", []string{"parts"}, allOK},
		{"600 partitions, one kill", allRight, "consumers-thr.sh", []string{"600"}, allOK},
		{"a worker that sleeps", allRight + ", though a worker sleeps through a resize", "asleep.sh", []string{r.pathOf("bin/eusn")}, allOK},
		{"own MQTT devices", allRight, "mqtt.sh", []string{"5"}, allOK},
		{"power loss, synced", allRight, "power.sh", []string{"always", "3"}, allOK},
		{"power loss", nothingWrong, "power.sh", []string{"default", "3"}, noneWrong},
		{"damaged features", "a damaged store of features is found, with exit code 5", "learn3.sh", nil,
			func(out string) bool {
				return strings.Count(out, "rc 5") == 17 && !strings.Contains(out, "OTHER MODEL")
			}},
		{"features of several stores", "what was learned before changes nothing: the same labels give the same model", "learn2.sh", nil, sameModels},
		{"models that do not fit", "none is published or promoted that the job cannot use, and " + allRight, "promote.sh", []string{"wrong"},
			func(out string) bool {
				refused := regexp.MustCompile(`(publish net2 rc 7|promote other classes rc 1|shadow other classes rc 1|publish truncated rc 5|unknown rc 1)\b`)
				return allOK(out) && len(refused.FindAllString(out, -1)) == 5
			}},
		{"learner killed", "it gives the model of an undisturbed one", "promote.sh", []string{"learn"},
			func(out string) bool { return strings.Contains(out, "same model bit for bit") }},
		{"backfill killed", "each prediction once, in whole lines", "jobs.sh", []string{"backfill"},
			func(out string) bool { return strings.Contains(out, "backfill lines 1800 distinct 1800 bad 0") }},
	}
	for _, s := range []struct{ script, sections string }{
		{"long.sh", "names dots times"},
		{"alarms.sh", "base kill zombie takeover natskill webhook"},
		{"gateway.sh", "http stop full slow delob udp"},
		{"gateway2.sh", "auth"},
		{"jobs.sh", "resize twice replace"},
		{"misc.sh", "oom embedded leak"},
		{"promote.sh", "two shadow"},
		{"record.sh", "kill full two"},
		{"cluster.sh", "leader rolling wipe slow"},
	} {
		for section := range strings.FieldsSeq(s.sections) {
			all = append(all, faultCase{strings.TrimSuffix(s.script, ".sh") + " " + section, allRight, s.script, []string{section}, allOK})
		}
	}
	for _, section := range []string{"corrupt", "delbucket"} { // what is missing comes when the readout is there again
		all = append(all, faultCase{"promote " + section, allRight + " in the end", "promote.sh", []string{section}, lastOK})
	}
	return all
}

// TestFaultCases runs scripts that break a job and compare what comes out.
func TestFaultCases(t *testing.T) {
	r := newRig(t, "faults-3")
	r.prepareFaults(t)
	for i, c := range r.faultCases() {
		recordCase(t, c.name, c.must, func(t *testing.T) outcome {
			out := r.runFault(t, portOf(22200+10*(i%10)), c.script, c.args...)
			return newOutcome(c.holds(out), "%s", strings.Join(verdict.FindAllString(out, -1), "; ")+" | "+shorten(out))
		})
	}
}

// checkLine matches the output of the comparison of predictions, verdict that of each comparison.
var (
	checkLine = regexp.MustCompile(`(OK|BAD|MISSING): want \d+; got \d+: right (\d+), missing (\d+), dup (\d+), wrong-unflagged (\d+), wrong-flagged (\d+)`)
	verdict   = regexp.MustCompile(`(?m)^(OK|BAD|MISSING): .*$`)
)

// noneWrong reports whether comparisons ran, and none found a prediction that is wrong
// without a flag, or duplicated.
func noneWrong(out string) bool {
	all := checkLine.FindAllStringSubmatch(out, -1)
	for _, m := range all {
		if m[4] != "0" || m[5] != "0" {
			return false
		}
	}
	return len(all) > 0
}

// allOK reports whether comparisons ran, and all found what is expected.
func allOK(out string) bool {
	return lastOK(out) && !slices.ContainsFunc(verdict.FindAllStringSubmatch(out, -1), func(m []string) bool { return m[1] != "OK" })
}

// lastOK reports whether the last comparison found what is expected.
func lastOK(out string) bool {
	all := verdict.FindAllStringSubmatch(out, -1)
	return len(all) > 0 && all[len(all)-1][1] == "OK"
}

// learned matches the output of a learner: the name of its model, and the checksum.
var learned = regexp.MustCompile(`(?m)^learn (\w+) .*rc 0 (\w+)`)

// sameModels reports whether learners with the same labels wrote the same model from different
// stores.
func sameModels(out string) bool {
	sums := map[string]string{}
	for _, m := range learned.FindAllStringSubmatch(out, -1) {
		sums[m[1]] = m[2]
	}
	same := func(names ...string) bool {
		return sums[names[0]] != "" && !slices.ContainsFunc(names, func(n string) bool { return sums[n] != sums[names[0]] })
	}
	return same("A2", "A3", "A4", "A9") && same("A6", "A6b") && sums["A1"] != sums["A2"]
}

// prepareFaults builds the programs and the model for the scripts, and computes the
// expected predictions.
func (r *rig) prepareFaults(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"bin", "data"} {
		if err := os.MkdirAll(r.pathOf(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(r.program, r.pathOf("bin/eusn")); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(r.cases, "jt", "*.go"))
	var overlay []string
	for _, f := range files {
		overlay = append(overlay, "cmd/jt/"+filepath.Base(f), f)
	}
	r.build(t, "bin/jt", "./cmd/jt", overlay...)
	r.build(t, "bin/nats-server", "github.com/nats-io/nats-server/v2")
	generate := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(r.pathOf("bin/jt"), append([]string{"gen"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		r.writeFile(t, name+".csv", string(out))
		r.mustRun(t, "import", name+".csv", "--output", name+".parquet")
	}
	generate("training", "-sb", "50", "-kb", "20", "-seed", "2")
	generate("truth", "-sb", "200", "-kb", "60")
	training, err := os.ReadFile(r.pathOf("training.csv"))
	if err != nil {
		t.Fatal(err)
	}
	r.writeFile(t, "classes.csv", strings.ReplaceAll(string(training), ",brg\n", ",bearing\n"))
	r.mustRun(t, "import", "classes.csv", "--output", "classes.parquet")
	for _, m := range []struct {
		name, archive string
		args          []string
	}{
		{"m", "training", nil},
		{"m2", "training", []string{"--ridge", "--alpha", "10"}},
		{"m3", "training", []string{"--ridge", "--alpha", "1000"}},
		{"net2", "training", []string{"--seed", "2"}},
		{"mX", "classes", nil},
	} {
		model := "data/" + m.name + ".safetensors"
		r.mustRun(t, append([]string{"train", m.archive + ".parquet", "--bank", "tiny", "--policy", "marked", "--output", model}, m.args...)...)
		if m.archive == "training" {
			r.mustRun(t, "evaluate", "--model", model, "truth.parquet", "--predictions", "data/truth-"+m.name+".parquet")
		}
	}
	r.translateScripts(t)
}

// translateScripts copies the scripts to the rig, with what has changed since they were written.
func (r *rig) translateScripts(t *testing.T) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(r.cases, "*.sh"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, path := range scripts {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// A stage does not begin a job a second time whose output is gone: the section about
		// other subjects begins with an empty server.
		text := strings.ReplaceAll(string(data), `fresh; killp $WPID; $JT delstream -url $U -stream EUSN-IN;  $JT delstream -url $U -stream EUSN-OUT;`, `bye; PIDS=(); rm -rf js; nats default;`)
		for _, c := range renamed {
			text = c.was.ReplaceAllString(text, c.is)
		}
		r.writeFile(t, filepath.Base(path), text)
	}
}

// renamed are commands and flags of the scripts, and their present names.
var renamed = []struct {
	was *regexp.Regexp
	is  string
}{
	{regexp.MustCompile(`backfill --from (\S+) --to `), "job backfill --since $1 --until "},
	{regexp.MustCompile(`(job backfill[^;|&]*)--rate `), "$1--limit "},
	{regexp.MustCompile(`offline (evaluate|retrain) --archive `), "offline $1 "},
	{regexp.MustCompile(`offline import --csv `), "offline import "},
	{regexp.MustCompile(`model shadow (\$\w+) --remove`), "model shadow rm $1"},
	{regexp.MustCompile(`model shadow --report`), "model shadow report"},
	{regexp.MustCompile(`model shadow \$`), "model shadow add $$"},
	{regexp.MustCompile(`resize --to `), "resize "},
	{regexp.MustCompile(` --every (\d)`), " --interval $1"},
	{regexp.MustCompile(` --metrics `), " --metrics-listen "},
	{regexp.MustCompile(` --out `), " --output "},
	{regexp.MustCompile(` --from (start|\d)`), " --since $1"},
	{regexp.MustCompile(`(job trim[^;|&]*)--keep `), "$1--min-age "},
	{regexp.MustCompile(` --without ('?)(who|stream)=`), " --exclude $1$2="},
	{regexp.MustCompile(`\$E partitions `), "$$E status --partitions "},
}

// runFault runs a script, which may use ten ports.
func (r *rig) runFault(t *testing.T, port int, script string, args ...string) string {
	t.Helper()
	for i, a := range map[string]string{"RIG": r.dir, "FAULTS": r.dir, "PORT": strconv.Itoa(port), "T": fmt.Sprint("t", port)} {
		t.Setenv(i, a)
	}
	out, code := r.execute(10*time.Minute, "bash", append([]string{r.pathOf(script)}, args...)...)
	t.Logf("code %d\n%s", code, out)
	return out
}
