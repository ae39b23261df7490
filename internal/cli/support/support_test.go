// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of the tests. No manager and no kubelet run.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// testNow is the time of the tests.
var testNow = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

var (
	installOnce sync.Once
	errInstall  error
	beds        atomic.Int32
)

// previousLog is the suffix of the names of previous logs, see bed.
const previousLog = ".previous"

// bed is a namespace for objects and one for managers. A proxy before the API server answers requests for logs, as the
// kubelet would.
type bed struct {
	*testing.T
	client.Client
	namespace, managers, kubeconfig string

	mutex sync.Mutex
	// logs are the logs of Pods by name, and the previous logs by name and suffix. denied are the paths that the proxy
	// refuses.
	logs   map[string]string
	denied []string
	// beforeLog is called before each answer to a request for a log.
	beforeLog func()
}

func newBed(t *testing.T) *bed {
	t.Helper()
	server := sharedServer.Server(t)
	installOnce.Do(func() {
		_, errInstall = envtest.InstallCRDs(server.RESTConfig(), envtest.CRDInstallOptions{ErrorIfPathMissing: true,
			Paths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases"), sharedServer.Binaries().CoreCRDs}})
	})
	if errInstall != nil {
		t.Fatal(errInstall)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, addonsv1.AddToScheme,
		clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(server.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	n := beds.Add(1)
	b := &bed{T: t, Client: c, namespace: fmt.Sprintf("fleet-%d", n), managers: fmt.Sprintf("managers-%d", n),
		logs: map[string]string{}}
	for _, name := range []string{b.namespace, b.managers} {
		b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	b.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.managers, Name: "default"}})
	b.startProxy(server.RESTConfig())
	return b
}

func (b *bed) create(object client.Object) {
	b.Helper()
	if err := b.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// startProxy starts the proxy and writes its kubeconfig.
func (b *bed) startProxy(config *rest.Config) {
	b.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		b.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		b.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mutex.Lock()
		pod, isLog := strings.CutSuffix(r.URL.Path, "/log")
		name := pod[strings.LastIndex(pod, "/")+1:]
		if r.URL.Query().Get("previous") == "true" {
			name += previousLog
		}
		log, ok := b.logs[name]
		beforeLog := b.beforeLog
		isDenied := false
		for _, path := range b.denied {
			isDenied = isDenied || strings.Contains(r.URL.Path, path)
		}
		b.mutex.Unlock()
		if isLog && beforeLog != nil {
			beforeLog()
		}
		switch {
		case isDenied:
			http.Error(w, "denied by the test", http.StatusForbidden)
		case isLog && !ok:
			http.Error(w, "container is not running", http.StatusBadRequest)
		case isLog:
			_, _ = w.Write([]byte(log))
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	b.Cleanup(server.Close)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	kubeconfig.CurrentContext = "c"
	b.kubeconfig = filepath.Join(b.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, b.kubeconfig); err != nil {
		b.Fatal(err)
	}
}

// pod creates a Pod of the manager with a log. The timestamp of each line is one second after the timestamp of the line
// before.
func (b *bed) pod(name string, labels map[string]string, from int, lines ...string) {
	b.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.managers, Name: name,
		Labels: map[string]string{"control-plane": "controller-manager"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "helmop:v1"}}}}
	for key, value := range labels {
		pod.Labels[key] = value
	}
	b.create(pod)
	b.setLog(name, from, lines...)
}

func (b *bed) setLog(pod string, from int, lines ...string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var log strings.Builder
	for i, line := range lines {
		at := testNow.Add(time.Duration(from+2*i) * time.Second)
		for part := range strings.SplitSeq(line, "\n") {
			fmt.Fprintf(&log, "%s %s\n", at.Format(time.RFC3339Nano), part)
		}
	}
	b.logs[pod] = log.String()
}

// deny makes the proxy refuse paths.
func (b *bed) deny(paths ...string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.denied = paths
}

// run runs a command.
func (b *bed) run(ctx context.Context, stdin string, args ...string) (out, errOut string, err error) {
	b.Helper()
	var outBuffer, errBuffer lockedBuffer
	err = b.runTo(ctx, genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &outBuffer, ErrOut: &errBuffer},
		args...)
	return outBuffer.String(), errBuffer.String(), err
}

func (b *bed) runTo(ctx context.Context, streams genericiooptions.IOStreams, args ...string) error {
	b.Helper()
	root := &cobra.Command{Use: "kubectl-helmop", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(kube.Options{Streams: streams, Program: "kubectl helmop",
		Now: func() time.Time { return testNow }})...)
	root.SetArgs(append(args, "--kubeconfig", b.kubeconfig, "-n", b.namespace, "--manager-namespace", b.managers))
	return root.ExecuteContext(ctx)
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

// Write appends data.
func (l *lockedBuffer) Write(data []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.Write(data)
}

func (l *lockedBuffer) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.String()
}
