// SPDX-License-Identifier: GPL-2.0-only
/*
 * Touchmark in the kernel: what may run.
 *
 *   hook                  sleeps  duty
 *   bprm_check_security   yes     the program, each script, each interpreter; tracers     program.h
 *   bprm_creds_for_exec   yes     AT_EXECVE_CHECK: an interpreter asks about a script     check.h
 *   mmap_file             yes     libraries, `ld.so ./program`, anonymous memory          memory.h
 *   file_mprotect         no      the same, made executable later                         memory.h
 *   kernel_read_file      yes     modules, firmware, kexec images, policies               check.h
 *   kernel_load_data      no      the same from memory                                    kernel_code.h
 *   file_open             no      for writing: the verdict falls, or ETXTBSY              writer.h
 *   path_truncate         no      truncate by path, which opens nothing                   writer.h
 *   inode_setxattr        no      the signature changes                                   writer.h
 *   inode_removexattr     no      the signature goes                                      writer.h
 *   ptrace_access_check   no      tracing, other processes' memory                        process.h
 *   ptrace_traceme        no      asking to be traced                                     process.h
 *   task_kill             no      signals to the daemon                                   process.h
 *   bpf_map, bpf_prog     no      descriptors of our maps and programs                    guard.h
 *   inode_unlink          no      our pins                                                guard.h
 *   inode_rename          no      our pins                                                guard.h
 *   sb_umount             no      the mounts our pins live on                             mounts.h
 *   bpf                   no      programs that would answer in our place                 guard.h
 *   task_prctl            no      a process that takes another program's name             guard.h
 *   locked_down           no      /dev/mem and other ways into the kernel                 kernel_code.h
 *
 * check_file() decides about files; the hooks are thin. The policy's mode is read at each decision, and in permissive
 * mode no path returns an error.
 */
#include "kernel.h"
#include "abi.h"
#include "maps.h"
#include "check.h"
#include "program.h"
#include "memory.h"
#include "writer.h"
#include "process.h"
#include "guard.h"
#include "mounts.h"
#include "kernel_code.h"

char LICENSE[] SEC("license") = "GPL";

SEC("lsm.s/bprm_check_security")
int BPF_PROG(check_exec, struct linux_binprm *bprm)
{
	return check_start(bprm);
}

/* Loaded only where the kernel has the flag (6.14). */
SEC("lsm.s/bprm_creds_for_exec")
int BPF_PROG(check_script, struct linux_binprm *bprm)
{
	return BPF_CORE_READ_BITFIELD(bprm, is_check) ? check_file(bprm->file, TM_HOOK_CHECK) : 0;
}

SEC("lsm.s/mmap_file")
int BPF_PROG(check_mmap, struct file *file, unsigned long requested, unsigned long protection, unsigned long flags)
{
	int refused;

	/* `protection` is what the mapping gets, READ_IMPLIES_EXEC included. */
	if (!(protection & PROT_EXEC))
		return 0;
	if (file)
		recognize_shown(file);
	refused = check_mapping(file, protection, flags);
	return refused || !file ? refused : check_mapped_interpreter(file);
}

SEC("lsm/file_mprotect")
int BPF_PROG(check_mprotect, struct vm_area_struct *vma, unsigned long requested, unsigned long protection)
{
	return protection & PROT_EXEC ? check_protection(vma, protection) : 0;
}

SEC("lsm.s/kernel_read_file")
int BPF_PROG(check_kernel_read, struct file *file, int what, bool contents)
{
	return file ? check_file(file, TM_HOOK_READ) : 0;
}

SEC("lsm/kernel_load_data")
int BPF_PROG(check_kernel_load, int what, bool contents)
{
	return check_buffer();
}

SEC("lsm/file_open")
int BPF_PROG(check_open, struct file *file)
{
	struct inode *inode;

	/* O_RDONLY | O_TRUNC empties a file, too. */
	if (!(file->f_mode & FMODE_WRITE) && !(file->f_flags & O_TRUNC))
		return 0;
	inode = file->f_inode;
	if (inode->i_sb->s_magic == PROC_SUPER_MAGIC) {
		int refused = check_kernel_switch(file);

		return refused ? refused : check_process_memory(file);
	}
	return check_writer(inode, file, NULL, TM_COUNT_DROPPED_OPEN);
}

SEC("lsm/path_truncate")
int BPF_PROG(check_truncate, const struct path *path)
{
	struct dentry *entry = path->dentry;

	return check_writer(entry->d_inode, NULL, entry, TM_COUNT_DROPPED_TRUNCATE);
}

SEC("lsm/inode_setxattr")
int BPF_PROG(signature_changes, void *idmap, struct dentry *entry, const char *name)
{
	forget_signature(entry, name);
	return 0;
}

SEC("lsm/inode_removexattr")
int BPF_PROG(signature_goes, void *idmap, struct dentry *entry, const char *name)
{
	forget_signature(entry, name);
	return 0;
}

SEC("lsm/ptrace_access_check")
int BPF_PROG(check_ptrace, struct task_struct *child, unsigned int mode)
{
	return mode & PTRACE_MODE_ATTACH ? check_trace(bpf_get_current_task_btf(), child) : 0;
}

SEC("lsm/ptrace_traceme")
int BPF_PROG(check_traceme, struct task_struct *parent)
{
	return check_trace(parent, bpf_get_current_task_btf());
}

SEC("lsm/task_kill")
int BPF_PROG(check_kill, struct task_struct *target, void *info, int signal)
{
	return check_signal(target, signal);
}

SEC("lsm/bpf_map")
int BPF_PROG(check_bpf_map, struct bpf_map *map, unsigned int mode)
{
	/* Also for reading: a BPF program writes to a map by any descriptor. */
	return check_descriptor(TM_GUARDED_MAP, map->id);
}

SEC("lsm/bpf_prog")
int BPF_PROG(check_bpf_program, struct bpf_prog *program)
{
	return check_descriptor(TM_GUARDED_PROGRAM, program->aux->id);
}

SEC("lsm/inode_unlink")
int BPF_PROG(check_unlink, struct inode *folder, struct dentry *entry)
{
	return check_pin(entry);
}

SEC("lsm/inode_rename")
int BPF_PROG(check_rename, struct inode *old_folder, struct dentry *old_entry, struct inode *new_folder,
	     struct dentry *new_entry)
{
	int refused = check_pin(old_entry);

	return refused ? refused : check_pin(new_entry);
}

SEC("lsm/sb_umount")
int BPF_PROG(check_umount, struct vfsmount *mounted, int flags)
{
	return check_unmount(mounted, flags);
}

SEC("lsm/bpf")
int BPF_PROG(check_bpf, int command, union bpf_attr *attribute, unsigned int size)
{
	return check_load(command, attribute);
}

SEC("lsm/task_prctl")
int BPF_PROG(check_prctl, int option, unsigned long what)
{
	return check_new_name(option, what);
}

SEC("lsm/locked_down")
int BPF_PROG(check_locked_down, int what)
{
	return check_lockdown(what);
}
