// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/namespacing"
)

const (
	// Path is the path of CustomResourceDefinitions in the Kubernetes API.
	Path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

	// asNames makes the API server return only names, not megabytes of schemas.
	asNames = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
	// fewCRDs is the largest number of CRDs for which it is cheaper to try to create each CRD than to list existing CRDs.
	fewCRDs = 3
	// crdTimeout bounds the wait until the cluster serves new kinds.
	crdTimeout = 60 * time.Second
	// maxCRDTries bounds the attempts to replace a CRD that another writer keeps changing, or whose existence the cluster
	// reports contradictorily.
	maxCRDTries = 5
	// crdPause is the pause after the first contradictory response. Further pauses are multiples of it.
	crdPause = 100 * time.Millisecond
)

// applier applies the crds folders of a chart to a cluster.
type applier struct {
	Target
	ctx    context.Context
	client rest.Interface
	mapper meta.RESTMapper
	policy model.CRDPolicy
	// preflight is called before the first write.
	preflight func() error
	// awaited are the kinds that Apply waits for, because the cluster does not serve them yet. A kind without a version
	// means any version.
	awaited []schema.GroupVersionKind
}

// Target is the cluster to which CRDs are applied.
type Target struct {
	Cluster   *apply.Client
	Namespace *namespacing.Namespacer
	// Known are the kinds that the cluster serves, according to the last discovery.
	Known chartutil.VersionSet
	// Rediscover runs discovery again.
	Rediscover func() (*chartutil.Capabilities, error)
}

// Apply creates, or creates and replaces, the objects of a chart's crds folders. It returns when the cluster serves the
// new kinds, so that templates can find them. It deletes nothing. It calls preflight before the first write.
func Apply(target Target, policy model.CRDPolicy, objects []*Object, preflight func() error) error {
	if err := target.Namespace.Check(); err != nil {
		return err
	}
	a := &applier{Target: target, ctx: target.Cluster.Ctx, policy: policy, preflight: preflight}
	var err error
	if a.client, err = target.Cluster.Clients.Raw(); err != nil {
		return err
	}
	if a.mapper, err = target.Cluster.Clients.ToRESTMapper(); err != nil {
		return err
	}
	target.Cluster.Progress("checking the chart's CRDs")
	return a.apply(objects)
}

func (a *applier) apply(objects []*Object) error {
	var crds, others []*Object
	for _, object := range objects {
		if object.IsCRD() {
			crds = append(crds, object)
		} else {
			others = append(others, object)
		}
	}
	apply := a.createMissing
	if a.policy == model.CRDsCreateReplace {
		apply = a.createOrReplace
	}
	if err := apply(crds); err != nil {
		return err
	}
	if err := a.awaitKinds(crds); err != nil {
		return err
	}
	for _, object := range others {
		if err := a.createOther(object); err != nil {
			return fmt.Errorf("%s: creating %s %q: %w", object.file, object.kind.Kind, object.Name, err)
		}
	}
	return nil
}

// createMissing creates the CRDs that do not exist.
func (a *applier) createMissing(crds []*Object) error {
	existing := map[string]bool{}
	if len(crds) > fewCRDs || !slices.ContainsFunc(crds, func(crd *Object) bool { return !a.isKnown(crd) }) {
		var err error
		existing, err = a.names()
		switch {
		case apierrors.IsForbidden(err):
			// The permission to install the chart's objects does not include the permission to list CRDs.
			existing = map[string]bool{}
			for _, crd := range crds {
				existing[crd.Name] = a.isKnown(crd)
			}
		case err != nil:
			return fmt.Errorf("listing CustomResourceDefinitions: %w", err)
		}
	}
	for _, crd := range crds {
		if !existing[crd.Name] {
			created, err := a.create(crd)
			if err != nil {
				return err
			}
			existing[crd.Name] = !created
		}
		if existing[crd.Name] {
			a.awaitUnlessKnown(crd)
		}
	}
	return nil
}

// isKnown reports whether the cluster serves the kind of a CRD in any version, according to the last discovery. If all
// CRDs are known, it is cheaper to list the CRDs than to try to create them.
func (a *applier) isKnown(crd *Object) bool {
	return slices.ContainsFunc(crd.Serves, func(kind schema.GroupVersionKind) bool { return a.Known.Has(entryOf(kind)) })
}

// names returns the names of the CRDs in the cluster.
func (a *applier) names() (map[string]bool, error) {
	data, err := a.client.Get().AbsPath(Path).SetHeader("Accept", asNames).Param("includeObject", "None").Do(a.ctx).Raw()
	if err != nil {
		return nil, err
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		return nil, helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
	}
	names := map[string]bool{}
	at := slices.IndexFunc(table.ColumnDefinitions,
		func(column metav1.TableColumnDefinition) bool { return column.Format == "name" })
	for _, row := range table.Rows {
		// A row that cannot be decoded counts as missing. Then the CRD is created again, which does no harm.
		if at >= 0 && at < len(row.Cells) {
			if name, ok := row.Cells[at].(string); ok {
				names[name] = true
			}
		}
	}
	return names, nil
}

// create creates a CRD; created is false if the CRD exists.
func (a *applier) create(crd *Object) (created bool, err error) {
	if err := a.begin(); err != nil {
		return false, err
	}
	err = a.client.Post().AbsPath(Path).Param("fieldManager", model.FieldManager).SetHeader("Accept",
		model.AcceptMetadata).Body(crd.data).Do(a.ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: creating the CustomResourceDefinition %q: %w", crd.file, crd.Name, err)
	}
	a.awaited = append(a.awaited, crd.Serves...)
	return true, nil
}

// begin calls preflight before the first write. Call begin before each write.
func (a *applier) begin() error {
	preflight := a.preflight
	a.preflight = func() error { return nil }
	if err := preflight(); err != nil {
		return err
	}
	a.Cluster.Progress("applying CRDs")
	return nil
}

// awaitUnlessKnown adds the kind of an existing CRD to the awaited kinds if the cluster does not serve the kind yet.
// Another process may have just created the CRD.
func (a *applier) awaitUnlessKnown(crd *Object) {
	if len(crd.Serves) == 0 {
		return
	}
	// The version does not matter: an older CRD may have other versions than the CRD of the chart.
	if _, err := a.mapper.RESTMapping(crd.Serves[0].GroupKind()); connections.IsUnmapped(err) {
		a.awaited = append(a.awaited, crd.Serves[0].GroupKind().WithVersion(""))
	}
}

// createOrReplace creates or replaces the CRDs.
func (a *applier) createOrReplace(crds []*Object) error {
	for _, crd := range crds {
		if err := a.replace(crd); err != nil {
			return err
		}
	}
	return nil
}

// replace replaces a CRD by the CRD of the chart. It creates the CRD if it does not exist.
func (a *applier) replace(crd *Object) error {
	path := Path + "/" + crd.Name
	fail := func(err error) error {
		return fmt.Errorf("%s: replacing the CustomResourceDefinition %q: %w", crd.file, crd.Name, err)
	}
	for try := 1; ; try++ {
		data, err := a.client.Get().AbsPath(path).Do(a.ctx).Raw()
		if apierrors.IsNotFound(err) {
			if created, err := a.create(crd); created || err != nil {
				return err
			}
			if try == maxCRDTries {
				return fail(errors.New("the cluster reports both that it exists and that it does not exist"))
			}
			select {
			case <-a.ctx.Done():
				return fail(context.Cause(a.ctx))
			case <-time.After(time.Duration(try) * crdPause):
				continue
			}
		}
		if err != nil {
			return fail(err)
		}
		merged, err := mergeCRD(crd.data, data)
		if err != nil {
			return fail(err)
		}
		if err := a.begin(); err != nil {
			return err
		}
		err = a.client.Put().AbsPath(path).Param("fieldManager", model.FieldManager).SetHeader("Accept",
			model.AcceptMetadata).Body(merged).Do(a.ctx).Error()
		if apierrors.IsConflict(err) && try < maxCRDTries {
			continue
		}
		if err != nil {
			return fail(err)
		}
		a.awaited = append(a.awaited, crd.Serves...)
		return nil
	}
}

// mergeCRD returns the replacement for a live CRD: the chart's CRD with the fields that other writers set. It keeps
// labels, annotations, finalizers and owners. It keeps a conversion that another writer set if the chart has none. It
// keeps the certificate authority of the conversion webhook if the chart's is empty.
func mergeCRD(chartData, liveData []byte) ([]byte, error) {
	desired, live := map[string]any{}, map[string]any{}
	if err := json.Unmarshal(chartData, &desired); err != nil {
		return nil, errors.New("the CustomResourceDefinition of the chart cannot be decoded")
	}
	if err := json.Unmarshal(liveData, &live); err != nil {
		return nil, helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
	}
	metadata, _, _ := unstructured.NestedMap(live, "metadata")
	if metadata == nil {
		return nil, helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
	}
	delete(metadata, "managedFields")
	for _, field := range []string{"labels", "annotations"} {
		chartEntries, _, _ := unstructured.NestedMap(desired, "metadata", field)
		merged, ok := metadata[field].(map[string]any)
		if !ok {
			merged = map[string]any{}
		}
		for key, value := range chartEntries {
			merged[key] = value
		}
		if len(merged) > 0 {
			metadata[field] = merged
		}
	}
	desired["metadata"] = metadata
	delete(desired, "status")
	spec, ok := desired["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("the CustomResourceDefinition of the chart has no spec")
	}
	keepConversion(spec, live)
	return json.Marshal(desired)
}

// keepConversion copies the conversion of the live CRD, or its certificate authority, to the spec if the spec has none.
func keepConversion(spec, live map[string]any) {
	liveConversion, ok, _ := unstructured.NestedMap(live, "spec", "conversion")
	if !ok {
		return
	}
	conversion, ok := spec["conversion"].(map[string]any)
	if !ok {
		if !isOwnConversion(live) {
			spec["conversion"] = liveConversion
		}
		return
	}
	bundle, ok, _ := unstructured.NestedString(liveConversion, "webhook", "clientConfig", "caBundle")
	if !ok || bundle == "" {
		return
	}
	webhook, _ := conversion["webhook"].(map[string]any)
	config, _ := webhook["clientConfig"].(map[string]any)
	if config != nil && (config["caBundle"] == nil || config["caBundle"] == "") {
		config["caBundle"] = bundle
	}
}

// isOwnConversion reports whether HelmOp set the conversion of a live CRD, according to its managed fields. An earlier
// version of the chart then had this conversion, and its webhook may be gone.
func isOwnConversion(live map[string]any) bool {
	entries, _, _ := unstructured.NestedSlice(live, "metadata", "managedFields")
	return slices.ContainsFunc(entries, func(entry any) bool {
		fields, _ := entry.(map[string]any)
		_, sets, _ := unstructured.NestedFieldNoCopy(fields, "fieldsV1", "f:spec", "f:conversion", "f:strategy")
		return sets && fields["manager"] == model.FieldManager
	})
}

// createOther creates an object that is not a CRD, unless the object exists.
func (a *applier) createOther(object *Object) error {
	mapping, err := a.mapper.RESTMapping(object.kind.GroupKind(), object.kind.Version)
	if meta.IsNoMatchError(err) {
		return a.Cluster.UnservedError([]schema.GroupVersionKind{object.kind})
	}
	if err != nil {
		return err
	}
	if err := a.begin(); err != nil {
		return err
	}
	post := func() error {
		prefix := "/apis/" + object.kind.GroupVersion().String()
		if object.kind.Group == "" {
			prefix = "/api/" + object.kind.Version
		}
		request := a.client.Post().AbsPath(prefix).Resource(mapping.Resource.Resource).Param("fieldManager",
			model.FieldManager)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace := object.namespace
			if namespace == "" {
				namespace = a.Cluster.Namespace
			}
			request = request.Namespace(namespace)
		}
		return request.SetHeader("Accept", model.AcceptMetadata).Body(object.data).Do(a.ctx).Error()
	}
	if err := a.Namespace.Around(post); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// awaitKinds waits until the cluster serves the awaited kinds, and discovery has found them.
func (a *applier) awaitKinds(crds []*Object) error {
	if len(a.awaited) == 0 {
		return nil
	}
	a.Cluster.Progress("waiting for the cluster to serve the kinds of the CRDs")
	deadline := time.Now().Add(crdTimeout)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		missing, err := a.missing()
		if err != nil || missing.Empty() {
			return err
		}
		if time.Now().After(deadline) {
			return a.notServed(missing, crds)
		}
		select {
		case <-a.ctx.Done():
			return fmt.Errorf("waiting for the cluster to serve %s of %s: %w", missing.Kind, missing.GroupVersion(),
				context.Cause(a.ctx))
		case <-time.After(pause):
		}
	}
}

// missing returns an awaited kind that the cluster does not serve yet; an empty kind if the cluster serves all. It
// first reads only the versions of the kinds, which is cheap, and then runs discovery.
func (a *applier) missing() (schema.GroupVersionKind, error) {
	for _, kind := range a.awaited {
		if kind.Version == "" {
			continue
		}
		served, err := a.Cluster.Serves(kind)
		if err != nil || !served {
			return kind, err
		}
	}
	capabilities, err := a.Rediscover()
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	for _, kind := range a.awaited {
		if kind.Version == "" {
			_, err := a.mapper.RESTMapping(kind.GroupKind())
			if connections.IsUnmapped(err) {
				return kind, nil
			}
			if err != nil {
				return kind, err
			}
			continue
		}
		if !capabilities.APIVersions.Has(entryOf(kind)) {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, nil
}

// notServed returns the error for a kind that the cluster does not serve although it has the CRD. The error contains
// the false conditions of the CRD.
func (a *applier) notServed(missing schema.GroupVersionKind, crds []*Object) error {
	reason := ""
	for _, crd := range crds {
		if !slices.ContainsFunc(crd.Serves,
			func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == missing.GroupKind() }) {
			continue
		}
		data, err := a.client.Get().AbsPath(Path + "/" + crd.Name).Do(a.ctx).Raw()
		if err != nil {
			continue
		}
		var live struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(data, &live); err != nil {
			continue
		}
		for _, condition := range live.Status.Conditions {
			if condition.Status == metav1.ConditionFalse {
				reason += fmt.Sprintf("; %s is %s: %s", condition.Type, condition.Status, condition.Message)
			}
		}
	}
	return helmerr.New(helmerr.ErrTimeout,
		"the cluster does not serve %s of %s %s after the CustomResourceDefinition was applied%s",
		missing.Kind, missing.GroupVersion(), crdTimeout, reason)
}
