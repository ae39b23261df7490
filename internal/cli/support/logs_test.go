// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// line returns an entry of the format text.
func line(severity, message, keys string) string {
	return severity + "1125 12:00:00.000000       1 a.go:1] \"" + message + "\" " + keys
}

var (
	byClusterctl = map[string]string{"cluster.x-k8s.io/provider": "addon-helmop"}
	ofShard      = map[string]string{addonsv1.ShardLabel: "b"}
)

func helmOpOf(namespace, name string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: addonsv1.HelmOpSpec{
		ClusterSelector: &metav1.LabelSelector{},
		Source:          addonsv1.ArtifactSource{URL: "oci://example.com/chart", Ref: addonsv1.ArtifactReference{Tag: "1"}}}}
}

// newLogBed has two managers, another provider, and entries about several objects.
func newLogBed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.create(helmOpOf(b.namespace, "calico"))
	b.create(helmOpOf(b.namespace, "calico-extra"))
	release := `HelmOpRelease="` + b.namespace + "/" + apiutil.ChildName("calico", "one") + `"`
	b.pod("first", byClusterctl, 0,
		line("I", "one", `HelmOp="`+b.namespace+`/calico" Cluster="one"`),
		line("E", "two", release+" err=<\n\tfirst\n\t\x1b]0;x\a\n >"),
		line("I", "three", `HelmOp="`+b.namespace+`/calico-extra"`),
		line("W", "four", `HelmOp="`+b.namespace+`/calico"`))
	b.pod("second", ofShard, 1,
		`{"ts":1,"caller":"a.go:1","msg":"between","v":0,"HelmOp":{"name":"calico","namespace":"`+b.namespace+`"}}`,
		line("I", "five", `Cluster="`+b.namespace+`/one"`))
	b.pod("other", nil, 0, line("I", "other", `HelmOp="`+b.namespace+`/calico"`))
	return b
}

// messages returns the messages of the shown entries.
func messages(out string) string {
	var found []string
	for _, word := range []string{"one", "between", "two", "three", "four", "five", "other"} {
		if strings.Contains(out, `"`+word+`"`) {
			found = append(found, word)
		}
	}
	return strings.Join(found, " ")
}

func TestLogs(t *testing.T) {
	t.Parallel()
	b := newLogBed(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"calico"}, "one between two four"},
		{[]string{"calico", "--since=1h"}, "one between two four"},
		{[]string{"calico", "--level=warning"}, "two four"},
		{[]string{"calico", "--level=error"}, "two"},
		{[]string{"calico", "--tail=2"}, "two four"},
		{[]string{"calico", "--cluster=one"}, "one two five"},
		{[]string{"calico", "--cluster=" + b.namespace + "/one"}, "one two five"},
		{[]string{"calico", "--cluster=two"}, ""},
		{[]string{"calico-extra"}, "three"},
		{[]string{"gone"}, ""},
	} {
		out, errOut, err := b.run(t.Context(), "", append([]string{"logs"}, tc.args...)...)
		if err != nil || messages(out) != tc.want {
			t.Errorf("%q: got %q, %v\n%s%s", tc.args, messages(out), err, out, errOut)
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%q writes an escape sequence", tc.args)
		}
		if tc.want == "" && !strings.Contains(errOut, "No entries found") {
			t.Errorf("%q: got %q", tc.args, errOut)
		}
		if tc.args[0] == "gone" && !strings.Contains(errOut, `warning: there is no HelmOp "gone"`) {
			t.Errorf("%q: got %q", tc.args, errOut)
		}
	}
	// The entries of two Pods are in order of time.
	out, _, _ := b.run(t.Context(), "", "logs", "calico")
	if !strings.Contains(out, "[pod/first] I1125") || strings.Index(out, `"between"`) > strings.Index(out, `"two"`) {
		t.Errorf("got\n%s", out)
	}
}

// TestLogsFaults expects that a Pod without a log does not stop the command.
func TestLogsFaults(t *testing.T) {
	t.Parallel()
	b := newLogBed(t)
	delete(b.logs, "first")
	out, errOut, err := b.run(t.Context(), "", "logs", "calico")
	if err != nil || messages(out) != "between" || !strings.Contains(errOut, "/first cannot be read: ") {
		t.Errorf("got %v\n%s%s", err, out, errOut)
	}
	delete(b.logs, "second")
	if _, _, err := b.run(t.Context(), "", "logs", "calico"); err == nil ||
		!strings.Contains(err.Error(), "/second cannot be read: ") {
		t.Errorf("got %v", err)
	}
	for text, args := range map[string][]string{
		`--level "debug" is unknown; use one of info, warning, error`: {"--level=debug"},
		"--tail must be -1 or more":                                   {"--tail=-2"},
		"--from-file cannot be used with --follow":                    {"--from-file=-", "-f"},
		"--previous or --since":                                       {"--from-file=-", "-p"},
		"--previous cannot be used with --follow":                     {"--previous", "--follow"},
		"no such file": {"--from-file=/does/not/exist"},
	} {
		if _, _, err := b.run(t.Context(), "", append([]string{"logs", "calico"}, args...)...); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%q: got %v", args, err)
		}
	}
	b.managers = b.namespace
	_, _, err = b.run(t.Context(), "", "logs", "calico")
	want := `no manager found in namespace "` + b.namespace + `": no Pod has the label control-plane=controller-manager and ` +
		"one of cluster.x-k8s.io/provider=addon-helmop and addons.cluster.x-k8s.io/shard; set --manager-namespace"
	if err == nil || err.Error() != want || !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// TestLogsPrevious reads the logs of before the restarts.
func TestLogsPrevious(t *testing.T) {
	t.Parallel()
	b := newLogBed(t)
	_, _, err := b.run(t.Context(), "", "logs", "calico", "--previous")
	want := `no container of the manager in namespace "` + b.managers + `" was restarted; omit --previous`
	if err == nil || err.Error() != want || !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.managers, Name: "second"}}
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", RestartCount: 1}}
	if err := b.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	b.setLog("second"+previousLog, 0, line("I", "four", `HelmOp="`+b.namespace+`/calico"`))
	out, errOut, err := b.run(t.Context(), "", "logs", "calico", "-p")
	if err != nil || messages(out) != "four" || errOut != "" {
		t.Errorf("got %v\n%s%s", err, out, errOut)
	}
}

// TestLogsFromFile reads a stored log.
func TestLogsFromFile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.create(helmOpOf(b.namespace, "calico"))
	log := line("I", "one", `HelmOp="`+b.namespace+`/calico"`) + "\n" + line("I", "two", "") + "\n"
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	for stdin, file := range map[string]string{log: "-", "": path} {
		out, errOut, err := b.run(t.Context(), stdin, "logs", "calico", "--from-file", file)
		if err != nil || messages(out) != "one" || errOut != "" {
			t.Errorf("%s: got %v\n%s%s", file, err, out, errOut)
		}
	}
	// The log of another fleet can be read without its management cluster.
	b.kubeconfig = filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(b.kubeconfig, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errOut, err := b.run(t.Context(), "", "logs", "calico", "--from-file", path)
	if err != nil || messages(out) != "one" || !strings.Contains(errOut, "are not known") {
		t.Errorf("without a management cluster: got %v\n%s%s", err, out, errOut)
	}
}

// TestLogsFromFileWithoutAnswer reads a stored log while the API server does not answer.
func TestLogsFromFileWithoutAnswer(t *testing.T) {
	t.Parallel()
	requests, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case requests <- struct{}{}:
			<-end
		case <-end:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) }) // before Close, which waits for the handlers
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{CurrentContext: "c",
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", Namespace: "ns"}}}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, listTimeout time.Duration) (out, errOut string, err error) {
		streams, in, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
		in.WriteString(line("I", "one", `HelmOp="ns/calico"`) + "\n")
		l := &logs{Base: kube.NewBase(kube.Options{Streams: streams}), tail: -1, level: "info", fromFile: "-",
			listTimeout: listTimeout}
		l.ConfigFlags.KubeConfig = &kubeconfig
		err = l.run(ctx, "calico")
		return outBuffer.String(), errBuffer.String(), err
	}
	out, errOut, err := read(t.Context(), 10*time.Millisecond)
	if err != nil || messages(out) != "one" || !strings.Contains(errOut, `the HelmOps of namespace "ns" are not known`) {
		t.Errorf("got %v\n%s%s", err, out, errOut)
	}
	// A user who interrupts the command wants no output.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-requests
		cancel()
	}()
	if out, errOut, err := read(ctx, time.Hour); !errors.Is(err, context.Canceled) || out+errOut != "" {
		t.Errorf("after an interruption: got %v\n%s%s", err, out, errOut)
	}
}

// TestLogsFollow writes entries, restarts a manager, and creates another one.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	b := newLogBed(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := &lockedBuffer{}, make(chan error, 1)
	l := &logs{Base: kube.NewBase(kube.Options{Streams: genericiooptions.IOStreams{Out: out, ErrOut: out}}),
		managerNamespace: b.managers, follow: true, tail: -1, level: "info", relistDelay: 10 * time.Millisecond}
	l.ConfigFlags.KubeConfig, l.ConfigFlags.Namespace = &b.kubeconfig, &b.namespace
	go func() { ended <- l.run(ctx, "calico") }()
	g.Eventually(out.String, time.Minute).Should(gomega.ContainSubstring(`"four"`))
	// The second log begins again with the entries that were read.
	b.setLog("first", 6, line("W", "four", `HelmOp="`+b.namespace+`/calico"`),
		line("I", "three", `HelmOp="`+b.namespace+`/calico"`))
	g.Eventually(out.String, time.Minute).Should(gomega.ContainSubstring(`"three"`))
	b.pod("third", byClusterctl, 20, line("I", "other", `HelmOp="`+b.namespace+`/calico"`))
	g.Eventually(out.String, time.Minute).Should(gomega.ContainSubstring(`[pod/third] I1125`))
	cancel()
	g.Eventually(ended, time.Minute).Should(gomega.Receive(gomega.BeNil()))
	for _, message := range []string{"two", "four", "three", "other"} {
		g.Expect(strings.Count(out.String(), `"`+message+`"`)).To(gomega.Equal(1), "%s in\n%s", message, out.String())
	}
}
