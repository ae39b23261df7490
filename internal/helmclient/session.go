// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"io"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// session is one action on one release.
type session struct {
	config  *action.Configuration
	storage *records.RecordingDriver
	logs    *helmerr.LogBuffer
	// deletions returns the errors of deletions. Helm reduces these errors to "failed to delete release".
	deletions func() error
	// namespace creates and labels the release's namespace when the first record is created.
	namespace *apply.Namespacer
	// cluster is Helm's client of the cluster; nil if a test replaces it.
	cluster *apply.Client
	// knownSince is when the versions of the objects were read from the cache.
	knownSince apply.Since
	// records stores the records in the cluster; nil if a test replaces it.
	records *records.Store
	// stored is where new records are stored.
	stored model.Storage
	// renderer renders charts.
	renderer *rendering.Renderer
	// tests are the results of the tests that ran.
	tests []TestResult
}

// openSession connects Helm with the target. ctx bounds all requests except writes to Helm's storage: the outcome of an
// action that timed out must still be recorded.
func (c *Client) openSession(ctx context.Context, target model.Target, desired model.Desired,
	logs *helmerr.LogBuffer,
) (*session, error) {
	conn, err := c.connections.Get(target)
	if err != nil {
		return nil, err
	}
	conn.RetainKinds()
	capabilities, err := conn.Capabilities(logs.Printf)
	if err != nil {
		return nil, err
	}
	clients := &connections.Getter{Conn: conn, Config: conn.ActionConfig(ctx)}
	cluster := apply.NewClient(ctx, clients, desired.Namespace, logs.Printf)
	cluster.Owner = apply.ReleaseName{Name: desired.Name, Namespace: desired.Namespace}
	namespace := &apply.Namespacer{Ctx: ctx, Clients: clients, Impersonated: target.Impersonate != ""}
	records := recordsOf(ctx, conn, desired.Namespace, target.Storage, namespace.EnsureKnownMissing)
	s := newSession(&recordDriver{CarefulDriver: records, namespace: namespace, seen: cluster.Seen}, cluster, desired,
		logs)
	s.records, s.stored = records, target.Storage
	s.namespace = namespace
	s.cluster = cluster
	s.config.RESTClientGetter = clients
	s.config.Capabilities = capabilities
	s.deletions = cluster.DeletionErrors
	return s, nil
}

// recordsOf returns the store of Helm's records in a namespace of a cluster. It calls beforeCreate before it creates a
// record.
func recordsOf(ctx context.Context, conn *connections.Connection, namespace string, storage model.Storage,
	beforeCreate func() error,
) *records.Store {
	return records.NewStore(ctx, records.StoreOptions{
		Client:    conn.Core.RESTClient(),
		Metadata:  conn.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace),
		Namespace: namespace,
		Storage:   storage,
		Codec:     conn.Codec,
		Memory:    conn.Payloads,
		Names:     conn.Namespaces,
		Observed: func(release string) ([]metav1.PartialObjectMetadata, bool) {
			return conn.Observations.Take(conn.ObservationKey(namespace, release))
		},
		BeforeCreate: beforeCreate,
	})
}

// newSession returns a session for a storage and a cluster.
func newSession(inner driver.Driver, cluster kube.Interface, desired model.Desired, logs *helmerr.LogBuffer) *session {
	recording := records.NewRecordingDriver(inner, records.AttemptLabels(desired, decide.Decision{}))
	recording.Shard = desired.Shard
	releases := storage.Init(recording)
	releases.Log = logs.Printf
	return &session{
		config: &action.Configuration{
			Releases:       releases,
			KubeClient:     cluster,
			Log:            logs.Printf,
			HookOutputFunc: func(_, _, _ string) io.Writer { return io.Discard },
		},
		storage:   recording,
		logs:      logs,
		deletions: func() error { return nil },
	}
}

// rediscover runs discovery again and returns the version and the kinds that the cluster serves.
func (s *session) rediscover() (*chartutil.Capabilities, error) {
	conn := s.cluster.Clients.Conn
	conn.Kinds.Invalidate()
	capabilities, err := conn.Capabilities(s.logs.Printf)
	if err != nil {
		return nil, err
	}
	s.config.Capabilities = capabilities
	return capabilities, nil
}

// recordDriver is the storage driver below [records.RecordingDriver]. It creates and labels the release's namespace,
// and stores which manifests are recorded.
type recordDriver struct {
	records.CarefulDriver
	namespace *apply.Namespacer
	seen      *apply.RecordedManifests
}

// Create implements driver.Driver.
func (d *recordDriver) Create(key string, rls *release.Release) error {
	return d.namespace.Around(func() error { return d.CarefulDriver.Create(key, rls) })
}

// Replace implements CarefulDriver.
func (d *recordDriver) Replace(key string, rls *release.Release) error {
	return d.namespace.Around(func() error { return d.CarefulDriver.Replace(key, rls) })
}

// Get implements driver.Driver.
func (d *recordDriver) Get(key string) (*release.Release, error) {
	rls, err := d.CarefulDriver.Get(key)
	if err == nil {
		d.seen.Add(rls)
	}
	return rls, err
}

// Query implements driver.Driver.
func (d *recordDriver) Query(labels map[string]string) ([]*release.Release, error) {
	list, err := d.CarefulDriver.Query(labels)
	for _, rls := range list {
		d.seen.Add(rls)
	}
	return list, err
}

// List implements driver.Driver.
func (d *recordDriver) List(filter func(*release.Release) bool) ([]*release.Release, error) {
	list, err := d.CarefulDriver.List(filter)
	for _, rls := range list {
		d.seen.Add(rls)
	}
	return list, err
}
