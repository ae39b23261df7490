// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of the integration tests.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// namespaces counts the namespaces of tests, so that no two runs of a test share a namespace.
var namespaces atomic.Int64

// bench is the namespace of a test.
type bench struct {
	t         *testing.T
	namespace string
	kube      kubernetes.Interface
	cutter    *helmtest.Cutter
	config    *rest.Config
	storage   model.Storage
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{t: t, namespace: fmt.Sprintf("records-%d", namespaces.Add(1)), cutter: &helmtest.Cutter{After: -1},
		config: sharedServer.Server(t).RESTConfig()}
	var err error
	if b.kube, err = kubernetes.NewForConfig(sharedServer.Server(t).RESTConfig()); err != nil {
		t.Fatal(err)
	}
	b.config.WrapTransport = b.cutter.Wrap
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	if _, err := b.kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// newRecords returns a store for the namespace, as for an action.
func (b *bench) newRecords() *Store {
	b.t.Helper()
	core, err := kubernetes.NewForConfig(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	client, err := metadata.NewForConfig(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	return NewStore(b.t.Context(), StoreOptions{
		Client:    core.CoreV1().RESTClient(),
		Metadata:  client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(b.namespace),
		Namespace: b.namespace, Storage: b.storage, Codec: recordcodec.New(),
		Names: NewNameSet(),
	})
}

func (b *bench) createRecords(statuses ...release.Status) {
	b.t.Helper()
	store := b.newRecords()
	for i, status := range statuses {
		rls := helmtest.FullRelease()
		rls.Namespace, rls.Version, rls.Info.Status, rls.Labels = b.namespace, i+1, status, map[string]string{"mine": "yes"}
		if err := store.Create(NameOf("demo", i+1), rls); err != nil {
			b.t.Fatal(err)
		}
	}
	b.cutter.Take()
}

func history() map[string]string { return map[string]string{"owner": "helm", "name": "demo"} }

func deployed() map[string]string {
	return map[string]string{"owner": "helm", "name": "demo", "status": "deployed"}
}

// TestIntegrationRecordsHistory checks the requests and the content of a history: the newest record is whole, and the
// others are stubs.
func TestIntegrationRecordsHistory(t *testing.T) {
	b := newBench(t)
	if _, err := b.newRecords().Query(history()); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("without records: %v", err)
	}
	b.createRecords(release.StatusSuperseded, release.StatusDeployed, release.StatusFailed)
	store := b.newRecords()
	list, err := store.Query(history())
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for i, rls := range list {
		whole := i == 2
		if rls.Version != i+1 || rls.Name != "demo" || rls.Namespace != b.namespace || rls.Labels["mine"] != "yes" ||
			rls.Labels["owner"] != "" ||
			(rls.Chart != nil) != whole || (rls.Manifest != "") != whole {
			t.Errorf("record %d: %+v", i+1, rls)
		}
	}
	if requests := b.cutter.Take(); len(requests) != 2 {
		t.Errorf("a history takes %v", requests)
	}
	found, err := store.Query(deployed())
	if err != nil || len(found) != 1 || found[0].Version != 2 || found[0].Chart == nil {
		t.Errorf("deployed: %+v, %v", found, err)
	}
	if requests := b.cutter.Take(); len(requests) != 1 {
		t.Errorf("the deployed one takes %v", requests)
	}
	// An update with a stub changes only the status of the record.
	list[0].Info.Status, list[0].Info.Description = release.StatusUninstalled, "gone"
	if err := store.Update(NameOf("demo", 1), list[0]); err != nil {
		t.Fatal(err)
	}
	saved, err := store.Get(NameOf("demo", 1))
	if err != nil || saved.Manifest == "" || saved.Chart == nil || saved.Info.Description != "gone" ||
		saved.Info.Status != release.StatusUninstalled {
		t.Errorf("saved stub: %+v, %v", saved, err)
	}
	if _, err := store.Query(map[string]string{"owner": "helm", "name": "demo",
		"status": "pending-install"}); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("no such status: %v", err)
	}
	all, err := store.List(func(rls *release.Release) bool { return rls.Version > 1 })
	if err != nil || len(all) != 2 || all[0].Chart != nil || all[1].Chart == nil {
		t.Errorf("list: %+v, %v", all, err)
	}
}

// TestIntegrationRecordsMemoryIsBounded checks that only a few of many records are in memory at the same time, whatever
// their metadata is. A user who may write Secrets in a workload cluster must not fill the memory of the manager.
func TestIntegrationRecordsMemoryIsBounded(t *testing.T) {
	const count = 3*pageSize + 1
	for name, query := range map[string]map[string]string{"a history": history(), "a status": deployed(),
		"without name": {"owner": "helm"}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			statuses := make([]release.Status, count)
			for i := range statuses {
				statuses[i] = release.StatusDeployed
			}
			b.createRecords(statuses...)
			store := b.newRecords()
			list, err := store.Query(query)
			if err != nil || len(list) != count {
				t.Fatalf("%d records, %v", len(list), err)
			}
			for _, rls := range list {
				if whole := rls.Manifest != "" || rls.Chart != nil; whole != (rls.Version == count) {
					t.Errorf("Helm revision %d is whole: %t", rls.Version, whole)
				}
			}
			for _, rls := range list {
				if _, err := store.Get(NameOf("demo", rls.Version)); err != nil {
					t.Fatal(err)
				}
			}
			if len(store.read) > maxKept {
				t.Errorf("%d records are kept", len(store.read))
			}
			list[0].Info.Status = release.StatusSuperseded
			if err := store.Update(NameOf("demo", list[0].Version), list[0]); err != nil {
				t.Fatal(err)
			}
			if saved, err := store.Get(NameOf("demo", list[0].Version)); err != nil || saved.Manifest == "" ||
				saved.Info.Status != release.StatusSuperseded {
				t.Errorf("saved: %+v, %v", saved, err)
			}
		})
	}
}

// TestIntegrationRecordsEndlessPages checks that an API server that always reports another page does not block an
// action forever.
func TestIntegrationRecordsEndlessPages(t *testing.T) {
	b := newBench(t)
	config := sharedServer.Server(t).RESTConfig()
	config.QPS = -1
	pages := 0
	config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(req.URL.Path, "/secrets") {
				return base.RoundTrip(req)
			}
			pages++
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
				Body: io.NopCloser(strings.NewReader(`{"kind":"SecretList","apiVersion":"v1","metadata":{"continue":"more"},"items":[]}`)),
			}, nil
		})
	}
	b.config = config
	if _, err := b.newRecords().Query(map[string]string{"owner": "helm"}); !errors.Is(err, ErrTooMany) ||
		pages != maxPages {
		t.Errorf("after %d pages: %v", pages, err)
	}
}

// TestIntegrationRecordsWrites checks that writes have the format of Helm, and the number of their requests.
func TestIntegrationRecordsWrites(t *testing.T) {
	b := newBench(t)
	b.createRecords(release.StatusDeployed)
	store := b.newRecords()
	if err := store.Create(NameOf("demo", 1), helmtest.FullRelease()); !errors.Is(err, driver.ErrReleaseExists) {
		t.Errorf("a second record: %v", err)
	}
	// Helm reads the record.
	theirs, err := storage.Init(driver.NewSecrets(b.kube.CoreV1().Secrets(b.namespace))).Last("demo")
	if err != nil || theirs.Version != 1 || theirs.Chart.Metadata.Name != "demo" || theirs.Labels["mine"] != "yes" {
		t.Errorf("Helm reads %+v, %v", theirs, err)
	}
	secret, err := b.kube.CoreV1().Secrets(b.namespace).Get(t.Context(), NameOf("demo", 1), metav1.GetOptions{})
	if err != nil || secret.Type != secretType || secret.Labels["createdAt"] == "" ||
		secret.Labels["status"] != "deployed" {
		t.Errorf("secret %+v, %v", secret.Labels, err)
	}
	b.cutter.Take()
	if rls, err := store.Delete(NameOf("demo", 1)); err != nil || rls.Version != 1 {
		t.Errorf("delete: %+v, %v", rls, err)
	}
	if _, err := store.Delete(NameOf("demo", 1)); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("delete of what is gone: %v", err)
	}
	if requests := b.cutter.Take(); len(requests) != 2 {
		t.Errorf("two deletions take %v", requests)
	}
	if err := store.Update(NameOf("demo", 1), helmtest.FullRelease()); err == nil {
		t.Error("a missing record was updated")
	}
}

// TestIntegrationRecordsMetadataMismatch checks that all records are read if metadata and payload disagree, and that
// the newest record is whole.
func TestIntegrationRecordsMetadataMismatch(t *testing.T) {
	b := newBench(t)
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	for name, spoil := range map[string]func(*corev1.Secret){
		"no number":  func(s *corev1.Secret) { s.Labels["version"] = "two" },
		"other name": func(s *corev1.Secret) { s.Labels["version"] = "7" },
		"status":     func(s *corev1.Secret) { s.Labels["status"] = "failed" },
		"unreadable": func(s *corev1.Secret) { s.Data[Key] = []byte("garbage") },
	} {
		b.createRecords(release.StatusSuperseded, release.StatusDeployed)
		secret, err := secrets.Get(t.Context(), NameOf("demo", 2), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spoil(secret)
		if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		list, err := b.newRecords().Query(history())
		if name == "unreadable" {
			if !errors.Is(err, helmerr.ErrRecordDamaged) {
				t.Errorf("%s: %+v, %v", name, list, err)
			}
		} else if err != nil || len(list) != 2 || list[0].Chart != nil || list[1].Chart == nil {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		if err := secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: "owner=helm"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIntegrationRecordsWriteIsRepeated checks that a revision is marked as superseded although the connection breaks.
func TestIntegrationRecordsWriteIsRepeated(t *testing.T) {
	b := newBench(t)
	b.createRecords(release.StatusDeployed)
	failures := 0
	config := sharedServer.Server(t).RESTConfig()
	config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet && failures < 2 {
				failures++
				return nil, helmtest.ErrCut
			}
			return base.RoundTrip(req)
		})
	}
	b.config = config
	rls := helmtest.FullRelease()
	rls.Version = 1
	if err := b.newRecords().Update(NameOf("demo", 1), rls); err != nil || failures != 2 {
		t.Errorf("after %d failures: %v", failures, err)
	}
	failures = -10
	if err := b.newRecords().Update(NameOf("demo", 1), rls); err == nil || failures != -10+WriteTries {
		t.Errorf("after %d failures: %v", failures, err)
	}
}

// TestIntegrationRecordsReplaceDetectsChanges checks that a record is replaced only if it has not changed since it was
// first read.
func TestIntegrationRecordsReplaceDetectsChanges(t *testing.T) {
	b := newBench(t)
	b.createRecords(release.StatusPendingInstall)
	key, rls := NameOf("demo", 1), helmtest.FullRelease()
	rls.Version, rls.Info.Status = 1, release.StatusPendingInstall
	if err := b.newRecords().Replace(key, rls); err == nil || errors.Is(err, driver.ErrReleaseExists) {
		t.Errorf("not read: %v", err)
	}
	store, other, late := b.newRecords(), b.newRecords(), b.newRecords()
	for _, reader := range []*Store{store, other, late} {
		if _, err := reader.Get(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Replace(key, rls); err != nil {
		t.Errorf("replace: %v", err)
	}
	other.Refresh()
	if _, err := other.Get(key); err != nil {
		t.Fatal(err)
	}
	for _, reader := range []*Store{other, late} {
		if err := reader.Replace(key, rls); !errors.Is(err, driver.ErrReleaseExists) {
			t.Errorf("changed since: %v", err)
		}
	}
	if _, err := store.Delete(key); err != nil {
		t.Fatal(err)
	}
	if err := late.Replace(key, rls); !errors.Is(err, driver.ErrReleaseExists) {
		t.Errorf("gone: %v", err)
	}
}
