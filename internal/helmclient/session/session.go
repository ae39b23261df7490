// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"io"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/namespacing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// Session is one action, or one read, on one release.
type Session struct {
	// Ctx is the context of the action.
	Ctx context.Context
	// Config is the configuration of Helm's actions.
	Config *action.Configuration
	// Storage is the driver for the records in Config.
	Storage *records.RecordingDriver
	// Logs holds the log lines of Helm. It also hides values in errors.
	Logs *helmerr.LogBuffer
	// Namespace creates and labels the release's namespace when the first record is created.
	Namespace *namespacing.Namespacer
	// Cluster is Helm's client of the cluster. It is nil for renderings without a cluster, and in tests that replace
	// it.
	Cluster *apply.Client
	// Records stores the records in the cluster. It is nil for renderings without a cluster, and in tests that replace
	// it.
	Records *records.Store
	// Stored is the place for new records.
	Stored model.Storage
	// Renderer renders charts.
	Renderer *rendering.Renderer
	// Memory is the memory of the session; nil if there is no bound.
	Memory *actionmemory.Lease
	// CRDs caches the parsed files of crds folders. It is nil for renderings without a cluster.
	CRDs *crds.Cache
}

// Job is the input of an action.
type Job struct {
	Decision decide.Decision
	Desired  model.Desired
	Options  model.Options
	Chart    *chart.Chart
	Values   map[string]any
}

// Source returns the chart of the job with values, for the renderer.
func (j Job) Source(values map[string]any) rendering.Source {
	return rendering.Source{Chart: j.Chart, Values: values, Tenant: tenantOf(j.Desired), Begin: j.Options.BeforeRender}
}

// HasPublicValues reports whether the values of the job have no value from a Secret. It is false for actions without
// values.
func (j Job) HasPublicValues() bool {
	return j.Decision.Action.RendersChart() && len(j.Options.SecretValues) == 0
}

// tenantOf returns the tenant of a release. This is the namespace of the owner.
func tenantOf(desired model.Desired) string {
	namespace, _, _ := strings.Cut(desired.Owner, ".")
	return namespace
}

// OwnerOf returns the owner of the memory for a release in a cluster. Without an owner of the release, the tenant is
// the namespace of the Cluster.
func OwnerOf(target model.Target, desired model.Desired) actionmemory.Owner {
	owner := actionmemory.Owner{Tenant: tenantOf(desired), Cluster: target.Key}
	if owner.Tenant == "" {
		owner.Tenant, _, _ = strings.Cut(target.Key, "/")
	}
	return owner
}

// Opener opens a session for a release of a cluster. ctx limits all requests except writes to Helm's storage: the
// outcome of an action that timed out must still be recorded.
type Opener func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer) (*Session,
	error)

// NewOpener returns the Opener that connects Helm with clusters. Its sessions share the parsed CRDs.
func NewOpener(pool *connections.Pool, renderer *rendering.Renderer, parsed *crds.Cache) Opener {
	return func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer) (*Session,
		error) {
		conn, err := pool.Get(target)
		if err != nil {
			return nil, err
		}
		conn.RetainKinds()
		capabilities, err := conn.Capabilities(target.AnyKinds, logs.Printf)
		if err != nil {
			return nil, err
		}
		clients := &connections.Getter{Conn: conn, Config: conn.ActionConfig(ctx)}
		cluster := apply.NewClient(ctx, clients, desired.Namespace, logs.Printf)
		cluster.Owner = objectinfo.ReleaseName{Name: desired.Name, Namespace: desired.Namespace}
		namespace := &namespacing.Namespacer{Ctx: ctx, Clients: clients, Manifest: cluster,
			Impersonated: target.Impersonate != ""}
		records := conn.Records(ctx, desired.Namespace, target.Storage, namespace.EnsureKnownMissing)
		s := New(ctx, &recordDriver{CarefulDriver: records, namespace: namespace, seen: cluster.Seen}, cluster, renderer,
			desired, logs)
		s.Records, s.Stored, s.Namespace, s.Cluster, s.CRDs = records, target.Storage, namespace, cluster, parsed
		s.Config.RESTClientGetter, s.Config.Capabilities = clients, capabilities
		return s, nil
	}
}

// New returns a session for a storage and a cluster. The Config of the session has no capabilities yet.
func New(ctx context.Context, inner driver.Driver, cluster kube.Interface, renderer *rendering.Renderer,
	desired model.Desired, logs *helmerr.LogBuffer,
) *Session {
	recording := records.NewRecordingDriver(inner, records.AttemptLabels(desired, decide.Decision{}))
	recording.Shard = desired.Shard
	releases := storage.Init(recording)
	releases.Log = logs.Printf
	return &Session{
		Ctx: ctx,
		Config: &action.Configuration{
			Releases:       releases,
			KubeClient:     cluster,
			Log:            logs.Printf,
			HookOutputFunc: func(_, _, _ string) io.Writer { return io.Discard },
		},
		Storage:  recording,
		Logs:     logs,
		Renderer: renderer,
	}
}

// Use opens a session for a release and calls use, within the memory of all actions. If use needs more memory than is
// free, Use waits, opens another session and calls use again. waits limits the waits; its context is ctx if it has
// none.
func Use(ctx context.Context, all *actionmemory.Budget, waits actionmemory.Waits, open Opener, target model.Target,
	desired model.Desired, logs *helmerr.LogBuffer, use func(*Session) error,
) error {
	if waits.Context == nil {
		waits.Context = ctx
	}
	return all.Do(waits, OwnerOf(target, desired), func(lease *actionmemory.Lease) error {
		s, err := open(ctx, target, desired, logs)
		if err != nil {
			return err
		}
		s.SetMemory(lease)
		return use(s)
	})
}

// SetMemory sets the memory of the session, also for its clients.
func (s *Session) SetMemory(lease *actionmemory.Lease) {
	s.Memory = lease
	if s.Records != nil {
		s.Records.Memory = lease
	}
	if s.Cluster != nil {
		s.Cluster.Memory = lease
	}
}

// Read opens a session for a release and calls read, see [Use]. The result must not hold anything for which the session
// has reserved memory. The error is an [*helmerr.Error].
func Read[Result any](ctx context.Context, all *actionmemory.Budget, open Opener, target model.Target,
	namespace, name string, read func(*Session) (Result, error),
) (result Result, err error) {
	desired := model.Desired{Name: name, Namespace: namespace}
	err = Use(ctx, all, actionmemory.Waits{}, open, target, desired, &helmerr.LogBuffer{}, func(s *Session) (err error) {
		result, err = read(s)
		return err
	})
	if err != nil {
		var none Result
		return none, helmerr.Observing(err)
	}
	return result, nil
}

// Error returns the error of an action of the session.
func (s *Session) Error(action model.Action, err error) *helmerr.Error {
	var deletions error
	if s.Cluster != nil {
		// For failed deletions, Helm returns only "failed to delete release".
		deletions = s.Cluster.DeletionErrors()
	}
	failed := helmerr.Acting(action, err, deletions, s.Logs)
	failed.StorageChanged = s.Storage.StorageChanged()
	return failed
}
