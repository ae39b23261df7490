// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// logs is the command "logs".
type logs struct {
	kube.Base
	cluster, managerNamespace string
	follow, previous          bool
	since                     time.Duration
	tail                      int
	level                     string
	fromFile                  string

	subject  subject
	severity severity

	// relistDelay is how long the command waits before it looks for new Pods, and before it reads a log that ended again.
	relistDelay time.Duration

	// listTimeout is how long the command waits for the HelmOps if it reads a stored log, because it can print the log
	// without them.
	listTimeout time.Duration
}

// logged is an entry of the log of a Pod.
type logged struct {
	entry
	pod string
}

func newLogs(o kube.Options) *cobra.Command {
	l := &logs{Base: kube.NewBase(o), relistDelay: 5 * time.Second, listTimeout: 5 * time.Second}
	cmd := &cobra.Command{
		Use:   "logs HELMOP",
		Short: "Print what the manager logs about a HelmOp and its releases",
		Long: `Print what the manager logs about a HelmOp and its releases: the entries of all Pods of the manager, in order
of time. With --cluster, print the entries about the release in one Cluster, and about the Cluster itself.

At its default verbosity, the manager logs actions and errors only. With HELMOP_LOG_LEVEL=5 at its installation (--v=5
of the manager), it logs each reconciliation.`,
		Example: `  # What did the manager do with calico in the last hour?
  kubectl helmop logs calico --since=1h

  # Follow the errors about one Cluster
  kubectl helmop logs calico --cluster prod-1 --level=error -f

  # What did the manager do with calico before it restarted?
  kubectl helmop logs calico --previous --tail=20

  # Read a log of the archive that the command debug wrote
  tar -xzOf calico.tar.gz calico/logs/helmop-controller-manager-0.log | kubectl helmop logs calico --from-file=-`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: l.CompleteHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) },
	}
	l.Add(cmd)
	l.AddClusterFlag(cmd, &l.cluster, "Print the entries about the release in this Cluster only.")
	addManagerFlag(cmd, &l.managerNamespace)
	flags := cmd.Flags()
	flags.BoolVarP(&l.follow, "follow", "f", false, "Print new entries until you stop the command.")
	flags.BoolVarP(&l.previous, "previous", "p", false,
		"Print the entries from before the last restart of the container.")
	flags.DurationVar(&l.since, "since", 0,
		"Print entries of the last time only, for example 10m (default: all that are kept).")
	flags.IntVar(&l.tail, "tail", -1, "Print this many of the last entries about the HelmOp; -1 prints all.")
	flags.StringVar(&l.level, "level", severityNames[0], "Print entries of at least this level: info, warning or error. "+
		"Logs in the format JSON have no warnings.")
	flags.StringVar(&l.fromFile, "from-file", "",
		"Read a log of the manager from this file instead of the Pods; - is the standard input.")
	_ = cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(severityNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagFilename("from-file")
	return cmd
}

// validate checks the flags.
func (l *logs) validate() error {
	var err error
	if l.severity, err = parseSeverity(l.level); err != nil {
		return kube.Usagef("%v", err)
	}
	if l.tail < -1 {
		return kube.Usagef("--tail must be -1 or more, not %d", l.tail)
	}
	if l.fromFile != "" && (l.follow || l.previous || l.since != 0) {
		return kube.Usagef("--from-file cannot be used with --follow, --previous or --since")
	}
	if l.follow && l.previous {
		return kube.Usagef("--previous cannot be used with --follow: the log of a container that ended does not grow")
	}
	return nil
}

func (l *logs) run(ctx context.Context, name string) error {
	if err := l.validate(); err != nil {
		return err
	}
	if err := l.choose(ctx, name); err != nil {
		return err
	}
	if l.fromFile != "" {
		return l.printFile()
	}
	m, err := newManagers(&l.Base, l.managerNamespace)
	if err != nil {
		return err
	}
	pods, err := m.pods(ctx)
	if err != nil {
		return err
	}
	if l.previous {
		if pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return !hasRestarted(&pod) }); len(pods) == 0 {
			return kube.WithText(fmt.Sprintf("no container of the manager in namespace %q was restarted; omit --previous",
				m.namespace), apierrors.NewNotFound(corev1.Resource("pods"), managerContainer))
		}
	}
	found, seen, err := l.read(ctx, m, pods)
	if err != nil {
		return err
	}
	l.print(found, len(pods) > 1)
	if !l.follow {
		return l.noteIfNone(found)
	}
	return l.runFollow(ctx, m, pods, seen)
}

// choose sets the subject. A HelmOp that no longer exists may have entries too. A stored log may be of a fleet that
// the user cannot read.
func (l *logs) choose(ctx context.Context, name string) error {
	namespace, helmOps, err := l.helmOps(ctx)
	if err != nil && (l.fromFile == "" || ctx.Err() != nil) {
		return err
	}
	l.subject = subject{helmOp: client.ObjectKey{Namespace: namespace, Name: name}}
	helmOp := &addonsv1.HelmOp{}
	for _, other := range helmOps {
		if other.Name == name {
			helmOp = other
			continue
		}
		l.subject.others = append(l.subject.others, other.Name)
	}
	switch {
	case err != nil:
		l.Note("warning: the HelmOps of namespace %q are not known, so entries about releases of HelmOps whose names "+
			"begin with %q are printed, too: %v", namespace, name+"-", err)
	case helmOp.Name == "":
		l.Note("warning: there is no HelmOp %q in namespace %q now", name, namespace)
	}
	if l.cluster == "" {
		return nil
	}
	key := client.ObjectKey{Namespace: namespace, Name: l.cluster}
	if namespace, name, ok := strings.Cut(l.cluster, "/"); ok {
		key = client.ObjectKey{Namespace: namespace, Name: name}
	} else if helmOp.Spec.ManagementCluster != nil && l.cluster == clusterlink.Management.Name {
		key = clusterlink.Management
	}
	l.subject.cluster = &key
	return nil
}

// helmOps returns the namespace of the command, and the HelmOps in it. If there is an error, the namespace is still
// set.
func (l *logs) helmOps(ctx context.Context) (namespace string, helmOps []*addonsv1.HelmOp, err error) {
	c, err := l.Connect()
	if err != nil {
		return cmp.Or(ptr.Deref(l.ConfigFlags.Namespace, ""), metav1.NamespaceDefault), nil, err
	}
	if l.fromFile != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.listTimeout)
		defer cancel()
	}
	helmOps, _, err = kube.ListAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, client.InNamespace(c.Namespace))
	return c.Namespace, helmOps, err
}

// shows reports whether the command prints an entry.
func (l *logs) shows(e *entry) bool { return e.severity >= l.severity && l.subject.concerns(e) }

func (l *logs) printFile() (err error) {
	file := l.Streams.In
	if l.fromFile != "-" {
		opened, err := os.Open(l.fromFile)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		file = opened
	}
	var found []logged
	err = readEntries(file, false, func(e entry) {
		if l.shows(&e) {
			found = append(found, logged{entry: e})
		}
	})
	if err != nil {
		return err
	}
	found = last(found, l.tail)
	l.print(found, false)
	return l.noteIfNone(found)
}

// last returns the last n entries; all if n is negative.
func last(found []logged, n int) []logged {
	if n < 0 || n >= len(found) {
		return found
	}
	return found[len(found)-n:]
}

// read returns the entries of all Pods in the order of time, and the time of the last entry of each Pod. It reports a
// Pod whose log cannot be read. It returns an error if it can read no log.
func (l *logs) read(ctx context.Context, m *managers, pods []corev1.Pod) (
	found []logged, seen map[string]time.Time, err error,
) {
	var errs []error
	seen = map[string]time.Time{}
	for i := range pods {
		options := corev1.PodLogOptions{SinceSeconds: sinceOption(l.since), Previous: l.previous}
		err := m.log(ctx, &pods[i], options, func(e entry) {
			seen[pods[i].Name] = e.at
			if l.shows(&e) {
				found = append(found, logged{e, pods[i].Name})
			}
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("the log of Pod %s/%s cannot be read: %w", pods[i].Namespace, pods[i].Name, err))
		}
	}
	if len(errs) == len(pods) {
		return nil, nil, errors.Join(errs...)
	}
	for _, err := range errs {
		l.Note("warning: %v", err)
	}
	slices.SortStableFunc(found, func(a, b logged) int { return a.at.Compare(b.at) })
	return last(found, l.tail), seen, nil
}

// print prints entries. It adds the names of the Pods if there are several.
func (l *logs) print(found []logged, withPods bool) {
	for i := range found {
		prefix := ""
		if withPods {
			prefix = "[pod/" + found[i].pod + "] "
		}
		_, _ = fmt.Fprintln(l.Streams.Out, prefix+found[i].text)
	}
}

func (l *logs) noteIfNone(found []logged) error {
	if len(found) == 0 {
		l.Note("No entries found. The manager logs actions and errors; --v=5 of the manager logs each reconciliation.")
	}
	return nil
}

// follower follows the logs of all Pods.
type follower struct {
	*logs
	*managers

	mutex sync.Mutex
	// seen is the time of the last entry that was read from each Pod. running are the Pods whose log is being read.
	seen    map[string]time.Time
	running map[string]bool
}

// runFollow prints new entries. It also follows Pods that are created later.
func (l *logs) runFollow(ctx context.Context, m *managers, pods []corev1.Pod, seen map[string]time.Time) error {
	f := &follower{logs: l, managers: m, seen: seen, running: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	noted := ""
	for {
		for i := range pods {
			f.start(ctx, &tasks, &pods[i])
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.relistDelay):
		}
		var err error
		if pods, err = m.pods(ctx); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && noted != err.Error() {
			noted = err.Error()
			l.Note("warning: %v; the command tries again", err)
		}
	}
}

// start reads the log of a Pod in the background, unless the log is being read already. A log that ends or cannot be
// read is read again later: the container may be restarting, or the Pod may not be ready yet.
func (f *follower) start(ctx context.Context, tasks *sync.WaitGroup, pod *corev1.Pod) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.running[pod.Name] {
		return
	}
	f.running[pod.Name] = true
	options := corev1.PodLogOptions{Follow: true}
	if seen := f.seen[pod.Name]; !seen.IsZero() {
		at := metav1.NewTime(seen)
		options.SinceTime = &at
	} else {
		options.SinceSeconds = sinceOption(f.since)
	}
	tasks.Go(func() {
		_ = f.log(ctx, pod, options, func(e entry) { f.add(pod.Name, e) })
		f.mutex.Lock()
		defer f.mutex.Unlock()
		delete(f.running, pod.Name)
	})
}

// add prints an entry. The API server returns entries from a whole second on. So entries that were read before may come
// again, and are skipped.
func (f *follower) add(pod string, e entry) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if !e.at.After(f.seen[pod]) {
		return
	}
	f.seen[pod] = e.at
	if f.shows(&e) {
		f.print([]logged{{e, pod}}, len(f.seen) > 1)
	}
}
