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
)

const (
	// Path is that of CustomResourceDefinitions.
	Path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

	// asNames keeps the API server from sending back megabytes of schemas.
	asNames = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
	// fewCRDs is the number of CRDs up to which it is cheaper to try to create each than to list what there is.
	fewCRDs = 3
	// crdTimeout bounds the wait until the cluster serves new kinds.
	crdTimeout = 60 * time.Second
	// maxCRDTries bounds the attempts to replace a CRD that another writer keeps changing, or whose existence the cluster
	// reports contradictorily. crdPause is the pause after the first contradiction; it grows with each.
	maxCRDTries = 5
	crdPause    = 100 * time.Millisecond
)

// applier brings the folders crds of a chart into a cluster.
type applier struct {
	Target
	ctx    context.Context
	client rest.Interface
	mapper meta.RESTMapper
	policy model.CRDPolicy
	// preflight is called before the first write.
	preflight func() error
	// awaited are the kinds that the cluster is to serve from now on.
	awaited []schema.GroupVersionKind
}

// Target is the cluster that CRDs are applied to.
type Target struct {
	Cluster   *apply.Client
	Namespace *apply.Namespacer
	// Known are the kinds that the cluster is known to serve; relearn asks it again.
	Known   chartutil.VersionSet
	Relearn func() (*chartutil.Capabilities, error)
}

// Apply creates, or creates and replaces, the objects of a chart's crds folders, and returns when the cluster serves
// the new kinds, so that templates can find them. It never deletes. Preflight is called before the first write.
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

func (a *applier) createMissing(crds []*Object) error {
	existing := map[string]bool{}
	if len(crds) > fewCRDs || !slices.ContainsFunc(crds, func(crd *Object) bool { return !a.isKnown(crd) }) {
		var err error
		existing, err = a.names()
		switch {
		case apierrors.IsForbidden(err):
			// The permission to install the chart's objects does not include the permission to read CRDs.
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

// isKnown reports whether the cluster seems to serve the kind of a CRD already, in whatever version: then it is cheaper
// to look than to try.
func (a *applier) isKnown(crd *Object) bool {
	return slices.ContainsFunc(crd.Serves, func(kind schema.GroupVersionKind) bool {
		return a.Known.Has(kind.GroupVersion().String() + "/" + kind.Kind)
	})
}

// names returns the names of the CRDs that the cluster has.
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
		// A row that cannot be decoded counts as missing: creating the CRD again does no harm.
		if at >= 0 && at < len(row.Cells) {
			if name, ok := row.Cells[at].(string); ok {
				names[name] = true
			}
		}
	}
	return names, nil
}

// create creates a CRD; created is false where it exists.
func (a *applier) create(crd *Object) (created bool, err error) {
	if err := a.begin(); err != nil {
		return false, err
	}
	err = a.client.Post().AbsPath(Path).Param("fieldManager", model.FieldManager).SetHeader("Accept",
		apply.AsMetadata).Body(crd.data).Do(a.ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: creating the CustomResourceDefinition %q: %w", crd.file, crd.Name, err)
	}
	a.awaited = append(a.awaited, crd.Serves...)
	return true, nil
}

// begin is called before each write.
func (a *applier) begin() error {
	preflight := a.preflight
	a.preflight = func() error { return nil }
	if err := preflight(); err != nil {
		return err
	}
	a.Cluster.Progress("applying CRDs")
	return nil
}

// awaitUnlessKnown waits for the kind of a CRD that another process may have just created.
func (a *applier) awaitUnlessKnown(crd *Object) {
	if len(crd.Serves) == 0 {
		return
	}
	// In whatever version: an older CRD may have others than the chart's.
	if _, err := a.mapper.RESTMapping(crd.Serves[0].GroupKind()); connections.IsUnmapped(err) {
		a.awaited = append(a.awaited, crd.Serves[0].GroupKind().WithVersion(""))
	}
}

func (a *applier) createOrReplace(crds []*Object) error {
	for _, crd := range crds {
		if err := a.replace(crd); err != nil {
			return err
		}
	}
	return nil
}

// replace makes a CRD equal to the one in the chart. It creates it if it is missing.
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
				return fail(errors.New("the cluster reports contradictorily that it exists and that it does not exist"))
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
			apply.AsMetadata).Body(merged).Do(a.ctx).Error()
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

// mergeCRD returns the chart's CRD as the replacement of a live one. It keeps what others set: labels, annotations,
// finalizers and owners; the conversion if the chart has none; and the certificate authority of the conversion webhook
// if the chart leaves that empty.
func mergeCRD(desired, live []byte) ([]byte, error) {
	wanted, found := map[string]any{}, map[string]any{}
	if err := json.Unmarshal(desired, &wanted); err != nil {
		return nil, errors.New("the CustomResourceDefinition of the chart cannot be decoded")
	}
	if err := json.Unmarshal(live, &found); err != nil {
		return nil, helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
	}
	metadata, _, _ := unstructured.NestedMap(found, "metadata")
	if metadata == nil {
		return nil, helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
	}
	delete(metadata, "managedFields")
	for _, field := range []string{"labels", "annotations"} {
		ours, _, _ := unstructured.NestedMap(wanted, "metadata", field)
		theirs, ok := metadata[field].(map[string]any)
		if !ok {
			theirs = map[string]any{}
		}
		for key, value := range ours {
			theirs[key] = value
		}
		if len(theirs) > 0 {
			metadata[field] = theirs
		}
	}
	wanted["metadata"] = metadata
	delete(wanted, "status")
	spec, ok := wanted["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("the CustomResourceDefinition of the chart has no spec")
	}
	keepConversion(spec, found)
	return json.Marshal(wanted)
}

func keepConversion(spec, found map[string]any) {
	theirs, ok, _ := unstructured.NestedMap(found, "spec", "conversion")
	if !ok {
		return
	}
	ours, ok := spec["conversion"].(map[string]any)
	if !ok {
		spec["conversion"] = theirs
		return
	}
	bundle, ok, _ := unstructured.NestedString(theirs, "webhook", "clientConfig", "caBundle")
	if !ok || bundle == "" {
		return
	}
	webhook, _ := ours["webhook"].(map[string]any)
	config, _ := webhook["clientConfig"].(map[string]any)
	if config != nil && (config["caBundle"] == nil || config["caBundle"] == "") {
		config["caBundle"] = bundle
	}
}

// createOther creates an object that is no CRD, unless it exists.
func (a *applier) createOther(object *Object) error {
	mapping, err := a.mapper.RESTMapping(object.kind.GroupKind(), object.kind.Version)
	if meta.IsNoMatchError(err) {
		return a.Cluster.RefuseUnknown([]schema.GroupVersionKind{object.kind})
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
		return request.SetHeader("Accept", apply.AsMetadata).Body(object.data).Do(a.ctx).Error()
	}
	if err := a.Namespace.Around(post); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// awaitKinds returns once the cluster serves the kinds that are new, and it is known that it does.
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

// missing returns a kind that the cluster does not serve yet, an empty kind if it serves all. It reads the versions of
// groups first, which is cheap, and only then all kinds.
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
	capabilities, err := a.Relearn()
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
		if !capabilities.APIVersions.Has(kind.GroupVersion().String() + "/" + kind.Kind) {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, nil
}

// notServed returns why the cluster does not serve a kind although it has the CRD.
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
