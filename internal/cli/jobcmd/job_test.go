package jobcmd_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// ownersAlone requires that files and folders with samples are accessible only to their
// owner.
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

// A job inspected while its stage runs and after its stop; its states as files,
// compared and imported by another job.
func TestJobCommands(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	data := filepath.Join(dir, "data")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--json")
	clitest.Await(t, url, 24, 0)

	var all []admin.PartitionStatus
	clitest.Must(t, "status", "--partitions", "--nats-url", url, "--json").Parse(t, &all)
	if len(all) != 2 || all[0].Owner == "" || all[0].Owner != all[1].Owner || all[0].Outs+all[1].Outs != 24 || all[0].Epoch != 1 {
		t.Errorf("partitions while it runs: %+v", all)
	}
	if out := clitest.Must(t, "state", "verify", "--model", model, "--nats-url", url).Out; strings.Count(out, ": equal up to") != 2 {
		t.Errorf("state verify says %q", out)
	}
	if out := clitest.Must(t, "deadletter", "list", "--nats-url", url).Out; out != "" {
		t.Errorf("no dead letters are listed as %q", out)
	}
	clitest.Exec(t, t.Context(), "status", "--partitions", "--nats-url", url, "--job", "nosuch").Want(t, cli.ExitFailure, "\"nosuch\"", "try: eusn-stream status --job")
	clitest.Exec(t, t.Context(), "deadletter", "resend", "1", "--nats-url", url).Want(t, cli.ExitFailure, "dead letter 1", "try: eusn-stream deadletter list")
	clitest.Exec(t, t.Context(), "deadletter", "resend", "one", "--nats-url", url).Want(t, cli.ExitUsage, `dead letter "one"`, "try: eusn-stream deadletter list")
	clitest.Exec(t, t.Context(), "state", "show", "pump", "pump", "--nats-url", url).Want(t, cli.ExitUsage, `partition "pump"`, "try: eusn-stream status --partitions")
	stage.Stop(t).Want(t, cli.ExitOK, "24 predictions committed")

	// Without a URL: the directory of the server that has stopped.
	if out := clitest.Must(t, "status", "--partitions", "--dir", data).Out; strings.Count(out, "\n") != 3 || !strings.Contains(out, "p0.e1.") {
		t.Errorf("partitions says\n%s", out)
	}
	if out := clitest.Must(t, "state", "show", "0", "--dir", data).Out; !strings.Contains(out, "partition 0 after input message") {
		t.Errorf("state show says %q", out)
	}
	var got admin.PartitionState
	clitest.Must(t, "state", "show", "0", "--dir", data, "--json").Parse(t, &got)
	first := got.Streams[0]
	var found admin.PartitionState
	clitest.Must(t, "state", "show", first.ID, "--dir", data, "--json").Parse(t, &found)
	if len(found.Streams) != 1 || found.Partition != 0 || found.Streams[0].Digest != first.Digest {
		t.Errorf("state show %s finds %+v", first.ID, found)
	}
	clitest.Must(t, "state", "show", first.Key+"/"+first.ID, "--dir", data)
	clitest.Must(t, "state", "show", "0", first.ID, "--dir", data)
	clitest.Exec(t, t.Context(), "state", "show", "nobody", "--dir", data).Want(t, cli.ExitFailure, `no snapshot of the job has a stream "nobody"`, "try: eusn-stream status --partitions")
	absent := filepath.Join(dir, "absent")
	clitest.Exec(t, t.Context(), "deadletter", "list", "--dir", absent).Want(t, cli.ExitFailure, absent, "try: another --dir")
	if _, err := os.Stat(absent); err == nil {
		t.Error("a command that only looks made a data directory")
	}
	clitest.Exec(t, t.Context(), "status", "--partitions", "--dir", dir).Want(t, cli.ExitFailure, "is not the data directory", "try: another --dir")
	elsewhere := filepath.Join(dir, "elsewhere.yaml")
	if err := os.WriteFile(elsewhere, []byte("server:\n  port: 4733\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), "status", "--partitions", "-c", elsewhere).Want(t, cli.ExitUnreachable, "there is no data directory eusn-data, and no NATS server at nats://127.0.0.1:4733", "try: eusn-stream run --model MODEL")
	states := filepath.Join(dir, "states")
	clitest.Must(t, "state", "export", "--dir", data, "-o", states)
	p0, p1 := filepath.Join(states, "p0.state"), filepath.Join(states, "p1.state")
	ownersAlone(t, data, filepath.Join(data, "eusn.lock"), filepath.Join(data, "jetstream"), states, p0, p1)
	clitest.Must(t, "state", "diff", p0, p0)
	clitest.Exec(t, t.Context(), "state", "diff", p0, p0+"x").Want(t, cli.ExitFailure, p0+"x", "try: eusn-stream state export")
	differ := clitest.Exec(t, t.Context(), "state", "diff", p0, p1)
	differ.Want(t, cli.ExitFailure, "streams differ")
	if lines := strings.Split(strings.TrimSpace(differ.Out), "\n"); len(lines) < 2 || !slices.IsSorted(lines) || !strings.Contains(differ.Out, "  -") {
		t.Errorf("differences, want them by stream, with - where there is none:\n%s", differ.Out)
	}
	conf := filepath.Join(dir, "heir.yaml")
	if err := os.WriteFile(conf, []byte("job: heir\nstage: {partitions: 2}\nserver: {dir: "+filepath.Join(dir, "heir")+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := clitest.Write(t, filepath.Join(dir, "cut.state"), "EUSNSNAP and no more")
	clitest.Exec(t, t.Context(), "state", "import", p0, cut, "-c", conf).Want(t, cli.ExitIntegrity, "cut.state", "nothing was imported")
	clitest.Exec(t, t.Context(), "state", "import", p0, p0, "-c", conf).Want(t, cli.ExitFailure, "both hold partition 0", "nothing was imported")
	other := statesOfAnother(t, archive, dir)
	clitest.Exec(t, t.Context(), "state", "import", p0, other, "-c", conf).Want(t, cli.ExitFailure, "p0.state", "other.state", "differ in network", "nothing was imported")
	clitest.Must(t, "state", "import", p0, "-c", conf)
	clitest.Exec(t, t.Context(), "state", "import", other, "-c", conf).Want(t, cli.ExitOtherModel, "was computed with another network", "try: --job")
	clitest.Must(t, "state", "import", p1, "-c", conf)
	clitest.Exec(t, t.Context(), "state", "import", p0, "-c", conf).Want(t, cli.ExitFailure, "already started")
	heirs := filepath.Join(dir, "heirs")
	clitest.Must(t, "state", "export", "-c", conf, "-o", heirs)
	clitest.Must(t, "state", "diff", p1, filepath.Join(heirs, "p1.state"))
}

// statesOfAnother is the state of partition 1 of a job of another network.
func statesOfAnother(t *testing.T, archive, dir string) string {
	t.Helper()
	model, data, states := filepath.Join(dir, "n.safetensors"), filepath.Join(dir, "other-data"), filepath.Join(dir, "other-states")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8", "--seed", "77")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16")
	clitest.Await(t, url, 24, 0)
	stage.Stop(t).Want(t, cli.ExitOK)
	clitest.Must(t, "state", "export", "--dir", data, "-o", states)
	path := filepath.Join(dir, "other.state")
	if err := os.Rename(filepath.Join(states, "p1.state"), path); err != nil {
		t.Fatal(err)
	}
	return path
}
