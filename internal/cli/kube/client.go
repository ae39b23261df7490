// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// Field managers of the commands. Flux removes the fields of all managers whose name begins with "kubectl" from objects
// in its repository, unless the repository has these fields.
const (
	// FieldManager is the field manager of marks, requests and pauses on objects of users. Flux must keep these fields,
	// which its repository does not have: HelmOp uninstalls the release of a Cluster that loses the label of a migration.
	FieldManager = "helmop-cli"

	// SpecFieldManager is the field manager of a spec that a command creates or restores. As soon as a repository of Flux
	// has the object, the repository decides about all fields of the spec.
	SpecFieldManager = "kubectl-helmop"
)

// Options are the settings of the program that all commands use.
type Options struct {
	// Streams are the input and the outputs. Results go to Out, progress and warnings to ErrOut.
	Streams genericiooptions.IOStreams

	// Program is the text with which users start the program, for example "kubectl helmop". Commands that the output
	// recommends begin with it.
	Program string

	// Now returns the current time. If it is nil, time.Now is used.
	Now func() time.Time
}

// Base holds what all commands share: the flags of kubectl that select the cluster, the identity and the namespace.
type Base struct {
	Options
	ConfigFlags *genericclioptions.ConfigFlags
}

// NewBase returns the part of a command that all commands share.
func NewBase(o Options) Base {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Streams.Out, o.Streams.ErrOut = &escaped{to: o.Streams.Out}, &escaped{to: o.Streams.ErrOut}
	kube := genericclioptions.NewConfigFlags(true)
	// Nothing is cached. --cluster names a Cluster of Cluster API, and not an entry of the kubeconfig.
	kube.CacheDir, kube.ClusterName = nil, nil
	return Base{Options: o, ConfigFlags: kube}
}

// Add adds the flags, with completion of namespaces.
func (b *Base) Add(cmd *cobra.Command) {
	b.ConfigFlags.AddFlags(cmd.Flags())
	// An error would mean that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("namespace", b.completeNamespaces)
}

// AddClusterFlag adds --cluster for one Cluster.
func (b *Base) AddClusterFlag(cmd *cobra.Command, value *string, usage string) {
	cmd.Flags().StringVar(value, "cluster", "",
		usage+" NAME, or NAMESPACE/NAME for a Cluster of another namespace than the HelmOp's.")
	_ = cmd.RegisterFlagCompletionFunc("cluster", b.CompleteClusters)
}

// Note prints progress or a warning.
func (b *Base) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(b.Streams.ErrOut, format+"\n", args...)
}

// Client is a client of the management cluster.
type Client struct {
	client.WithWatch

	// Namespace is the namespace from the flags or from the context.
	Namespace string

	// Note prints a warning.
	Note func(format string, args ...any)
}

// RestConfig returns the configuration of clients of the management cluster.
func (b *Base) RestConfig() (*rest.Config, error) {
	config, err := b.ConfigFlags.ToRESTConfig()
	if err != nil {
		return nil, Explain(err)
	}
	config.UserAgent = "kubectl-helmop/" + version.Version
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NewWarningWriter(b.Streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// Invocation returns the program with the flags of the user that select the management cluster.
func (b *Base) Invocation() fleetview.Program {
	p := fleetview.Program{Name: b.Program}
	for _, flag := range []struct {
		name  string
		value *string
	}{{"context", b.ConfigFlags.Context}, {"kubeconfig", b.ConfigFlags.KubeConfig}} {
		if value := ptr.Deref(flag.value, ""); value != "" {
			p.Flags += " --" + flag.name + "=" + fleetview.Quoted(value)
		}
	}
	return p
}

// Connect returns a client. It sends no request. kinds are additional namespaced kinds that the command uses.
func (b *Base) Connect(kinds ...schema.GroupVersionKind) (*Client, error) {
	config, err := b.RestConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := b.ConfigFlags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, Explain(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(addonsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: Mapper(kinds...)})
	if err != nil {
		return nil, Explain(err)
	}
	return &Client{WithWatch: strictClient{c}, Namespace: namespace, Note: b.Note}, nil
}

// strictClient makes the API server refuse an object with fields that the cluster's CRDs do not have. By default, the
// API server would drop the fields: the CRDs may be older than this program.
type strictClient struct{ client.WithWatch }

func (c strictClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return c.WithWatch.Create(ctx, object, append(options, client.FieldValidation(metav1.FieldValidationStrict))...)
}

func (c strictClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return c.WithWatch.Update(ctx, object, append(options, client.FieldValidation(metav1.FieldValidationStrict))...)
}

func (c strictClient) Patch(ctx context.Context, object client.Object, patch client.Patch,
	options ...client.PatchOption,
) error {
	return c.WithWatch.Patch(ctx, object, patch, append(options, client.FieldValidation(metav1.FieldValidationStrict))...)
}

// Mapper returns the resources of the kinds that the commands use, so that no discovery is needed. kinds are additional
// namespaced kinds.
func Mapper(kinds ...schema.GroupVersionKind) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"HelmOp", "HelmOpRelease", "HelmOpRevision"} {
		mapper.Add(addonsv1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(clusterv1.GroupVersion.WithKind("Cluster"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	for _, kind := range kinds {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return mapper
}

// ListAll lists objects in chunks, and returns them with the resource version from which a watch continues.
func ListAll[T client.Object](ctx context.Context, c client.Client, list client.ObjectList,
	opts ...client.ListOption,
) (items []T, resourceVersion string, err error) {
	page := func(raw metav1.ListOptions) (runtime.Object, error) {
		options := (&client.ListOptions{}).ApplyOptions(opts)
		options.Limit, options.Continue = raw.Limit, raw.Continue
		chunk := list.DeepCopyObject().(client.ObjectList)
		err := c.List(ctx, chunk, options)
		return chunk, err
	}
	all, _, err := pager.New(pager.SimplePageFunc(page)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", Explain(err)
	}
	objects, err := meta.ExtractList(all)
	if err != nil {
		return nil, "", err
	}
	items = make([]T, 0, len(objects))
	for _, object := range objects {
		items = append(items, object.(T))
	}
	accessor, err := meta.ListAccessor(all)
	if err != nil {
		return nil, "", err
	}
	return items, accessor.GetResourceVersion(), nil
}

// Change is one observation of Follow: a complete list, or an event about one object.
type Change[T client.Object] struct {
	// IsList is true for a list: the first list, or a list after the watch ended. items contains all objects then.
	IsList bool
	Items  []T

	Event  watch.EventType
	Object T
}

// Apply applies the change to the known objects.
func (c *Change[T]) Apply(objects *map[client.ObjectKey]T) {
	switch {
	case c.IsList:
		*objects = fleetview.ByKey(c.Items)
	case c.Event == watch.Deleted:
		delete(*objects, client.ObjectKeyFromObject(c.Object))
	default:
		(*objects)[client.ObjectKeyFromObject(c.Object)] = c.Object
	}
}

// rewatchDelays returns how long Follow waits before it lists again, after the API server ended a watch or failed.
func rewatchDelays() wait.DelayFunc {
	const reset = time.Minute
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 6, Cap: 30 * time.Second}.
		DelayWithReset(clock.RealClock{}, reset)
}

// Follow lists objects and then watches them. It calls fn for each change until fn returns true or an error. An API
// server ends each watch after some time. Follow then lists again. After the first list, Follow also continues if the
// API server does not answer.
func Follow[T client.Object](ctx context.Context, c *Client, list client.ObjectList,
	fn func(Change[T]) (done bool, err error), opts ...client.ListOption,
) error {
	delay, hasListed, noted := rewatchDelays(), false, ""
	for {
		var done bool
		var failed error
		err := observe(ctx, c, list, func(change Change[T]) bool {
			hasListed, noted = true, ""
			done, failed = fn(change)
			return done || failed != nil
		}, opts...)
		switch {
		case done || failed != nil:
			return failed
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (!hasListed || !isTransient(err)):
			return Explain(err)
		case err != nil && noted != err.Error():
			noted = err.Error()
			c.Note("warning: %v; the command tries again", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay()):
		}
	}
}

// isTransient reports whether an error of an API server may end by itself.
func isTransient(err error) bool {
	return !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsInvalid(err)
}

// observe lists objects and then watches them until fn returns true, or until the watch ends.
func observe[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList,
	fn func(Change[T]) (done bool), opts ...client.ListOption,
) error {
	items, resourceVersion, err := ListAll[T](ctx, c, list, opts...)
	if err != nil {
		return err
	}
	if fn(Change[T]{IsList: true, Items: items}) {
		return nil
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	options.Raw = &metav1.ListOptions{ResourceVersion: resourceVersion}
	watcher, err := c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), options)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	drain(ctx, watcher, fn)
	return nil
}

// drain passes on the events of a watch until the watch ends or fn returns true.
func drain[T client.Object](ctx context.Context, watcher watch.Interface, fn func(Change[T]) (done bool)) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-watcher.ResultChan():
			if !ok || event.Type == watch.Error {
				return
			}
			object, ok := event.Object.(T)
			if ok && event.Type != watch.Bookmark && fn(Change[T]{Event: event.Type, Object: object}) {
				return
			}
		}
	}
}

// Named selects one object by its name.
func Named(namespace, name string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)}}
}

// HelmOp reads a HelmOp.
func (c *Client) HelmOp(ctx context.Context, name string) (*addonsv1.HelmOp, error) {
	helmOp := &addonsv1.HelmOp{}
	return helmOp, c.ReadHelmOp(ctx, name, helmOp)
}

// ReadHelmOp reads a HelmOp into an object.
func (c *Client) ReadHelmOp(ctx context.Context, name string, object client.Object) error {
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) && !IsKindMissing(err) {
		return NoHelmOp(c.Namespace, name)
	}
	return Explain(err)
}

// NoHelmOp is the error for a HelmOp that does not exist. If the namespace is empty, the message is for all namespaces.
func NoHelmOp(namespace, name string) error {
	where := fmt.Sprintf("in namespace %q", namespace)
	if namespace == "" {
		where = "in any namespace"
	}
	return &textError{fmt.Sprintf("there is no HelmOp %q %s; check -n and --context", name, where),
		apierrors.NewNotFound(addonsv1.GroupVersion.WithResource("helmops").GroupResource(), name)}
}

// Release reads the release of a HelmOp in a Cluster. cluster is the name of the Cluster, or namespace/name.
func (c *Client) Release(ctx context.Context, helmOp *addonsv1.HelmOp, cluster string) (
	*addonsv1.HelmOpRelease, error,
) {
	release := &addonsv1.HelmOpRelease{}
	title := clusterTitle(helmOp, cluster)
	err := c.Get(ctx, client.ObjectKey{Namespace: helmOp.Namespace,
		Name: apiutil.ChildName(helmOp.Name, title)}, release)
	if apierrors.IsNotFound(err) && !IsKindMissing(err) {
		return nil, &textError{fmt.Sprintf("HelmOp %q has no release in Cluster %q%s", helmOp.Name, title,
			whyNoRelease(helmOp, title)), err}
	}
	return release, Explain(err)
}

// clusterTitle returns the title of a Cluster, as messages and HelmOpReleases use it, for the name that a user gave.
func clusterTitle(helmOp *addonsv1.HelmOp, cluster string) string {
	if helmOp.Spec.ManagementCluster != nil && cluster == clusterlink.Management.Name {
		return apiutil.ManagementTitle
	}
	return strings.TrimPrefix(cluster, helmOp.Namespace+"/")
}

// whyNoRelease returns the failure of a Cluster from the status of its HelmOp.
func whyNoRelease(helmOp *addonsv1.HelmOp, title string) string {
	i := slices.IndexFunc(helmOp.Status.Failures, func(f addonsv1.ClusterFailure) bool { return f.Cluster == title })
	if i < 0 {
		return ""
	}
	failure := helmOp.Status.Failures[i]
	return fmt.Sprintf(": %s: %s", failure.Reason, failure.Message)
}

// Releases lists the releases of a HelmOp.
func (c *Client) Releases(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRelease, error) {
	items, _, err := ListAll[*addonsv1.HelmOpRelease](ctx, c, &addonsv1.HelmOpReleaseList{},
		client.InNamespace(helmOp.Namespace), client.MatchingLabels(apiutil.ChildSelector(helmOp)))
	// Two long names may share a label value.
	return slices.DeleteFunc(items, func(r *addonsv1.HelmOpRelease) bool {
		return apiutil.HelmOpOf(r) != helmOp.Name
	}), err
}

// Revisions lists the HelmOp revisions of a HelmOp, the newest last.
func (c *Client) Revisions(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRevision, error) {
	items, _, err := ListAll[*addonsv1.HelmOpRevision](ctx, c, &addonsv1.HelmOpRevisionList{},
		client.InNamespace(helmOp.Namespace), client.MatchingLabels(apiutil.ChildSelector(helmOp)))
	return fleetview.RevisionsOf(helmOp, items), err
}

// Bounded returns a context that ends after a timeout; 0 means no limit.
func Bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}
