package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// The calls in an advice get the command's flags for server and job, each once, and never a password.
func TestAdviceHasFlags(t *testing.T) {
	tree := func() (root, status *cobra.Command) {
		root = &cobra.Command{Use: "eusn-stream"}
		add := func(to *cobra.Command, use string, flags ...string) *cobra.Command {
			c := &cobra.Command{Use: use, RunE: func(*cobra.Command, []string) error { return nil }}
			c.Flags().StringP("config", "c", "", "")
			for _, f := range flags {
				c.Flags().String(f, map[string]string{"job": "eusn"}[f], "")
			}
			to.AddCommand(c)
			return c
		}
		status = add(root, "status", "nats-url", "job")
		add(root, "run", "nats-url", "job", "dir", "model")
		add(root, "demo")
		add(add(root, "deadletter"), "list", "nats-url", "job", "dir")
		return root, status
	}
	for _, c := range []struct {
		flags            []string
		job              string
		text, want, what string
	}{
		{nil, "eusn", "eusn-stream deadletter list, for the reasons", "eusn-stream deadletter list, for the reasons", "nothing was given"},
		{[]string{"--nats-url", "nats://h:1", "--job", "a"}, "a", "eusn-stream deadletter list, for the reasons; eusn-stream demo", "eusn-stream deadletter list --nats-url nats://h:1 --job a, for the reasons; eusn-stream demo", "a server and a job"},
		{[]string{"-c", "my file.yaml"}, "eusn", "eusn-stream run -c FILE, or (eusn-stream deadletter list)", "eusn-stream run -c 'my file.yaml', or (eusn-stream deadletter list -c 'my file.yaml')", "a file"},
		{[]string{"--nats-url", "nats://u:p@h:1"}, "eusn", "eusn-stream status", "eusn-stream status --nats-url URL", "a password"},
		{[]string{"--job", "a"}, "a", "eusn-stream run --job NEW: then this", "eusn-stream run --job NEW: then this", "another job"},
		{nil, "other", "eusn-stream status", "eusn-stream status --job other", "a job of all"},
		{[]string{"--job", "a"}, "a", "eusn-stream run --help", "eusn-stream run --help", "help"},
		{[]string{"--job", "a"}, "a", "search the server's log; eusn-stream is a program", "search the server's log; eusn-stream is a program", "no call"},
	} {
		_, status := tree()
		if err := status.ParseFlags(c.flags); err != nil {
			t.Fatal(err)
		}
		a := &App{}
		a.Runs(status)
		once := a.AdviceOn(c.job, c.text)
		if twice := a.Advice(once); once != c.want || twice != once {
			t.Errorf("%s: %q, and again %q; want %q", c.what, once, twice, c.want)
		}
	}
}
