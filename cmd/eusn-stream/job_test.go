package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// ownersAlone wants files and folders that hold samples to be closed to others.
func ownersAlone(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		there, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := there.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
			t.Errorf("%s has mode %04o, want nothing for others", path, mode)
		}
	}
}

// A job seen while its stage runs and after it has stopped; its states as
// files, compared and taken over by another job.
func TestJobCommands(t *testing.T) {
	archive, dir := importTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "8")
	data := filepath.Join(dir, "data")
	stage := startProgram(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "2")
	url := serverURL.FindString(stage.messages())
	must(t, "replay", "--archive", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--json")
	await(t, url, 24, 0)

	var all []pipeline.PartitionStatus
	must(t, "partitions", "--nats-url", url, "--json").parse(t, &all)
	if len(all) != 2 || all[0].Owner == "" || all[0].Owner != all[1].Owner || all[0].Outs+all[1].Outs != 24 || all[0].Epoch != 1 {
		t.Errorf("partitions while it runs: %+v", all)
	}
	if out := must(t, "state", "verify", "--model", model, "--nats-url", url).out; strings.Count(out, ": equal up to") != 2 {
		t.Errorf("state verify says %q", out)
	}
	if out := must(t, "deadletter", "list", "--nats-url", url).out; out != "" {
		t.Errorf("no dead letters are listed as %q", out)
	}
	exec(t, t.Context(), "partitions", "--nats-url", url, "--job", "nosuch").want(t, exitFailure, "\"nosuch\"", "try: eusn-stream partitions --job")
	exec(t, t.Context(), "deadletter", "replay", "1", "--nats-url", url).want(t, exitFailure, "dead letter 1", "try: eusn-stream deadletter list")
	exec(t, t.Context(), "deadletter", "replay", "one", "--nats-url", url).want(t, exitUsage, `dead letter "one"`, "try: eusn-stream deadletter list")
	exec(t, t.Context(), "state", "get", "pump", "pump", "--nats-url", url).want(t, exitUsage, `partition "pump"`, "try: eusn-stream partitions")
	stage.stop(t).want(t, exitOK, "24 predictions committed")

	// Without a URL: the directory of the server that has stopped.
	if out := must(t, "partitions", "--dir", data).out; strings.Count(out, "\n") != 3 || !strings.Contains(out, "p0.e1.") {
		t.Errorf("partitions says\n%s", out)
	}
	if out := must(t, "state", "get", "0", "--dir", data).out; !strings.Contains(out, "partition 0 after input message") {
		t.Errorf("state get says %q", out)
	}
	var got pipeline.PartitionState
	must(t, "state", "get", "0", "--dir", data, "--json").parse(t, &got)
	first := got.Streams[0]
	var found pipeline.PartitionState
	must(t, "state", "get", first.ID, "--dir", data, "--json").parse(t, &found)
	if len(found.Streams) != 1 || found.Partition != 0 || found.Streams[0].Digest != first.Digest {
		t.Errorf("state get %s finds %+v", first.ID, found)
	}
	must(t, "state", "get", first.Key+"/"+first.ID, "--dir", data)
	must(t, "state", "get", "0", first.ID, "--dir", data)
	exec(t, t.Context(), "state", "get", "nobody", "--dir", data).want(t, exitFailure, `no snapshot of the job has a stream "nobody"`, "try: eusn-stream partitions")
	absent := filepath.Join(dir, "absent")
	exec(t, t.Context(), "deadletter", "list", "--dir", absent).want(t, exitFailure, absent, "try: eusn-stream deadletter list --nats-url")
	if _, err := os.Stat(absent); err == nil {
		t.Error("a command that only looks made a data directory")
	}
	exec(t, t.Context(), "partitions", "--dir", dir).want(t, exitFailure, "is no data directory", "try: eusn-stream partitions --nats-url")
	states := filepath.Join(dir, "states")
	must(t, "state", "export", "--dir", data, "-o", states)
	p0, p1 := filepath.Join(states, "p0.state"), filepath.Join(states, "p1.state")
	ownersAlone(t, data, filepath.Join(data, "eusn.lock"), filepath.Join(data, "jetstream"), states, p0, p1)
	must(t, "state", "diff", p0, p0)
	exec(t, t.Context(), "state", "diff", p0, p0+"x").want(t, exitFailure, p0+"x", "try: eusn-stream state export")
	differ := exec(t, t.Context(), "state", "diff", p0, p1)
	differ.want(t, exitFailure, "streams differ")
	if lines := strings.Split(strings.TrimSpace(differ.out), "\n"); len(lines) < 2 || !slices.IsSorted(lines) || !strings.Contains(differ.out, "  -") {
		t.Errorf("differences, want them by stream, with - where there is none:\n%s", differ.out)
	}
	conf := filepath.Join(dir, "heir.yaml")
	if err := os.WriteFile(conf, []byte("job: heir\nstage: {partitions: 2}\nserver: {dir: "+filepath.Join(dir, "heir")+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := write(t, filepath.Join(dir, "cut.state"), "EUSNSNAP and no more")
	exec(t, t.Context(), "state", "import", p0, cut, "-c", conf).want(t, exitIntegrity, "cut.state", "nothing was imported")
	exec(t, t.Context(), "state", "import", p0, p0, "-c", conf).want(t, exitFailure, "both of partition 0", "nothing was imported")
	other := statesOfAnother(t, archive, dir)
	exec(t, t.Context(), "state", "import", p0, other, "-c", conf).want(t, exitFailure, "p0.state", "other.state", "are of two networks", "nothing was imported")
	must(t, "state", "import", p0, "-c", conf)
	exec(t, t.Context(), "state", "import", other, "-c", conf).want(t, exitOtherModel, "is of another network", "try: --job")
	must(t, "state", "import", p1, "-c", conf)
	exec(t, t.Context(), "state", "import", p0, "-c", conf).want(t, exitFailure, "begun already")
	heirs := filepath.Join(dir, "heirs")
	must(t, "state", "export", "-c", conf, "-o", heirs)
	must(t, "state", "diff", p1, filepath.Join(heirs, "p1.state"))
}

// statesOfAnother is the state of partition 1 of a job of another network.
func statesOfAnother(t *testing.T, archive, dir string) string {
	t.Helper()
	model, data, states := filepath.Join(dir, "n.safetensors"), filepath.Join(dir, "other-data"), filepath.Join(dir, "other-states")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "8", "--seed", "77")
	stage := startProgram(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "2")
	url := serverURL.FindString(stage.messages())
	must(t, "replay", "--archive", archive, "--nats-url", url, "--streams", "5", "--rows", "16")
	await(t, url, 24, 0)
	stage.stop(t).want(t, exitOK)
	must(t, "state", "export", "--dir", data, "-o", states)
	path := filepath.Join(dir, "other.state")
	if err := os.Rename(filepath.Join(states, "p1.state"), path); err != nil {
		t.Fatal(err)
	}
	return path
}
