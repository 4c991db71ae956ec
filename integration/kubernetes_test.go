package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

const kubernetes = "../configs/kubernetes"

// manifests are the files listed by the kustomizations, and their objects.
func manifests(t *testing.T) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	var kustomizations []string
	for _, pattern := range []string{"*/kustomization.yaml", "*/*/kustomization.yaml"} {
		found, err := filepath.Glob(filepath.Join(kubernetes, pattern))
		if err != nil {
			t.Fatal(err)
		}
		kustomizations = append(kustomizations, found...)
	}
	if len(kustomizations) < 5 {
		t.Fatalf("kustomizations: %v", kustomizations)
	}
	for _, k := range kustomizations {
		for _, o := range objects(t, k) {
			for _, name := range o["resources"].([]any) {
				file := filepath.Join(filepath.Dir(k), name.(string))
				all[file] = objects(t, file)
			}
		}
	}
	return all
}

func objects(t *testing.T, file string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewDecoder(f); ; {
		var o map[string]any
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, o)
	}
}

// valueAt returns the value in an object under keys, or nil.
func valueAt(o any, keys ...string) any {
	for _, k := range keys {
		m, _ := o.(map[string]any)
		o = m[k]
	}
	return o
}

// Every container runs as the image does, in the sandbox of the units, and the program's
// containers use existing commands and flags.
func TestKubernetesContainers(t *testing.T) {
	ours := 0
	for file, list := range manifests(t) {
		for _, o := range list {
			pod := valueAt(o, "spec", "template", "spec")
			if pod == nil {
				continue
			}
			if valueAt(pod, "securityContext", "runAsNonRoot") != true || valueAt(pod, "securityContext", "seccompProfile", "type") != "RuntimeDefault" || valueAt(pod, "automountServiceAccountToken") != false {
				t.Errorf("%s: a pod may more than it needs", file)
			}
			for _, c := range valueAt(pod, "containers").([]any) {
				if valueAt(c, "securityContext", "allowPrivilegeEscalation") != false || valueAt(c, "securityContext", "readOnlyRootFilesystem") != true || len(valueAt(c, "securityContext", "capabilities", "drop").([]any)) != 1 {
					t.Errorf("%s: container %s may more than it needs", file, valueAt(c, "name"))
				}
				if valueAt(c, "resources", "limits", "memory") == nil {
					t.Errorf("%s: container %s has no limit of memory", file, valueAt(c, "name"))
				}
				if valueAt(c, "image") != "eusn-stream" {
					continue
				}
				ours++
				var args []string
				for _, a := range valueAt(c, "args").([]any) {
					args = append(args, strings.ReplaceAll(a.(string), "$(JOB_COMPLETION_INDEX)", "0"))
				}
				var out, errOut bytes.Buffer
				if code := root.Run(t.Context(), append(args, "--help"), &out, &errOut); code != 0 || !strings.Contains(out.String(), "Usage:") {
					t.Errorf("%s: eusn-stream %v: exit code %d: %s", file, args, code, errOut.Bytes())
				}
			}
		}
	}
	if ours < 3 {
		t.Errorf("%d containers of the program, want stage, shards and merge", ours)
	}
}

// The program accepts the stage's configuration, and a NATS server the configuration of
// the servers.
func TestKubernetesConfigurations(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := root.Run(t.Context(), []string{"config", "check", filepath.Join(kubernetes, "stage", "stage.yaml")}, &out, &errOut); code != 0 {
		t.Errorf("stage.yaml: exit code %d: %s", code, errOut.Bytes())
	}
	t.Setenv("POD_NAME", "eusn-nats-1")
	t.Setenv("STAGE_PASSWORD", "one")
	t.Setenv("SENSOR_PASSWORD", "two")
	t.Setenv("ROUTE_PASSWORD", "three")
	for i := range 3 {
		t.Setenv(fmt.Sprintf("ROUTE_%d", i), fmt.Sprintf("nats://route:three@eusn-nats-%d.eusn-nats:6222", i))
	}
	o, err := server.ProcessConfigFile(filepath.Join(kubernetes, "nats", "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if o.ServerName != "eusn-nats-1" || !o.JetStream || !o.SyncAlways || len(o.Routes) != 3 || o.Cluster.Port != 6222 || o.HTTPPort != 8222 || o.StoreDir != "/data" {
		t.Errorf("read as %+v", o)
	}
	if password, _ := o.Routes[2].User.Password(); o.Cluster.Username != "route" || o.Cluster.Password != "three" || password != "three" || o.Routes[2].Host != "eusn-nats-2.eusn-nats:6222" {
		t.Errorf("servers log in to each other as %q with %q, to %v", o.Cluster.Username, o.Cluster.Password, o.Routes)
	}
	var users []string
	for _, u := range o.Users {
		users = append(users, u.Username+" "+u.Password)
	}
	slices.Sort(users)
	if !slices.Equal(users, []string{"sensor two", "stage one"}) {
		t.Errorf("users %v", users)
	}
}

// The schema of Kubernetes finds no errors in the manifests, and finds planted errors.
func TestKubernetesSchemas(t *testing.T) {
	dir := parts.RequireModule(t, "node", "tools/kubernetes", "kubernetes-models", "")
	var files []string
	for file := range manifests(t) {
		files = append(files, file)
	}
	text, err := os.ReadFile(filepath.Join(kubernetes, "stage", "workers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	wrong := strings.NewReplacer("replicas: 2", "replicas: two", "maxUnavailable: 1 ", "maxMissing: 1 ", "10\n  selector:", "10\n  choose:").Replace(string(text))
	if err := os.WriteFile(bad, []byte(wrong), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("node", append([]string{filepath.Join(dir, "check.mjs"), bad}, files...)...).CombinedOutput()
	for _, want := range []string{"spec/replicas must be integer", "'\"maxMissing\"' does not exist", "required property selector"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("a wrong manifest: %v, want %q in\n%s", err, want, out)
		}
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, bad+": ") {
			t.Errorf("in what should be right: %s", line)
		}
	}
}
