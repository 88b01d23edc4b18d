// test_jit.c - modules from text: the cache, its key, and every way in which building can
// fail.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "pcvr.h"

static const char text[] =
    "#include \"pcvr.h\"\n"
    "#if defined(PCVR_ISA_AVX512)\n#define NAME pcvr_t_avx512\n#define ISA \"avx512\"\n"
    "#elif defined(PCVR_ISA_AVX2)\n#define NAME pcvr_t_avx2\n#define ISA \"avx2\"\n"
    "#else\n#define NAME pcvr_t_scalar\n#define ISA \"scalar\"\n#endif\n"
    "#ifndef EMBEDDING\n#define EMBEDDING 0\n#endif\n"
    "const pcvr_module NAME = {.abi = PCVR_ABI, .name = \"t\", .isa = ISA, .actions = "
    "1,\n"
    "                          .embedding = EMBEDDING};\n";

static char root[64], err[1024];

static void
unset(const char *const *names)
{
    for (; *names != NULL; names++)
        unsetenv(*names);
}

static int
setup(void **state)
{
    (void)state;
    static const char *const names[] = {"PCVR_CC", "PCVR_INCLUDE", "PCVR_ISA", NULL};
    unset(names);
    snprintf(root, sizeof root, "/tmp/pcvr-test-XXXXXX");
    if (mkdtemp(root) == NULL)
        return -1;
    setenv("XDG_CACHE_HOME", root, 1);
    err[0] = '\0';
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) == 0 ? 0 : -1;
}

static int
build(const pcvr_module **m)
{
    return pcvr_module_build(text, "pcvr_t", "scalar", m, err, sizeof err);
}

// Files of the cache whose names end so; with "" all of them.
static int
count(const char *ending)
{
    char path[128];
    int n = 0;
    snprintf(path, sizeof path, "%s/pcvr", root);
    DIR *d = opendir(path);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        size_t k = strlen(e->d_name), l = strlen(ending);
        n += e->d_name[0] != '.' && k >= l && strcmp(e->d_name + k - l, ending) == 0;
    }
    if (d != NULL)
        closedir(d);
    return n;
}

// One line, holding `part`.
static void
assert_error(const char *part)
{
    assert_null(strchr(err, '\n'));
    if (strstr(err, part) == NULL)
        fail_msg("'%s' lacks '%s'", err, part);
}

static void
builds_and_caches(void **state)
{
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    const pcvr_module *m;
    int built = 0;
    for (int k = 0; k < 3; k++) {
        if (!pcvr_isa_supported(isas[k])) {
            assert_int_equal(
                pcvr_module_build(text, "pcvr_t", isas[k], &m, err, sizeof err),
                PCVR_EISA);
            continue;
        }
        for (int again = 0; again < 2; again++) {
            int rc = pcvr_module_build(text, "pcvr_t", isas[k], &m, err, sizeof err);
            if (rc != PCVR_OK)
                fail_msg("%s", err);
            assert_string_equal(m->isa, isas[k]);
            assert_int_equal(m->abi, PCVR_ABI);
        }
        assert_int_equal(count(".so"), ++built);
        assert_int_equal(count(".c"), built);
        assert_int_equal(count(""), 2 * built);
    }
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/pcvr", root);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void
flags_and_headers_are_in_the_key(void **state)
{
    (void)state;
    const pcvr_module *m;
    char *old = getenv("PCVR_CFLAGS") != NULL ? strdup(getenv("PCVR_CFLAGS")) : NULL;
    char flags[512];
    assert_int_equal(build(&m), PCVR_OK);
    assert_int_equal(m->embedding, 0);
    snprintf(flags, sizeof flags, "%s -DEMBEDDING=5", old != NULL ? old : "");
    setenv("PCVR_CFLAGS", flags, 1);
    assert_int_equal(build(&m), PCVR_OK);
    assert_int_equal(m->embedding, 5);
    assert_int_equal(count(".so"), 2);
    if (old != NULL)
        setenv("PCVR_CFLAGS", old, 1);
    else
        unsetenv("PCVR_CFLAGS");
    free(old);

    char include[128], header[256];
    size_t n;
    char *h = pcvr_file_read("runtime/pcvr.h", &n, NULL);
    assert_non_null(h);
    snprintf(include, sizeof include, "%s/include/kernels", root);
    assert_true(pcvr_make_dirs(include, NULL));
    snprintf(header, sizeof header, "%s/include/pcvr.h", root);
    snprintf(include, sizeof include, "%s/include", root);
    assert_true(pcvr_file_write(header, h, n, NULL));
    setenv("PCVR_INCLUDE", include, 1);
    assert_int_equal(build(&m), PCVR_OK);
    int before = count(".so");
    snprintf(header, sizeof header, "%s/include/kernels/one.h", root);
    assert_true(pcvr_file_write(header, "// a\n", 5, NULL));
    assert_int_equal(build(&m), PCVR_OK);
    assert_int_equal(count(".so"), before + 1);
    assert_true(pcvr_file_write(header, "// b\n", 5, NULL));
    assert_int_equal(build(&m), PCVR_OK);
    assert_int_equal(count(".so"), before + 2);
    free(h);
    setenv("PCVR_INCLUDE", "/nowhere", 1);
    assert_int_equal(build(&m), PCVR_EIO);
    assert_null(m);
    assert_error("PCVR_INCLUDE");
}

static void
no_compiler(void **state)
{
    (void)state;
    const pcvr_module *m;
    setenv("PCVR_CC", "/nowhere/cc", 1);
    assert_int_equal(build(&m), PCVR_EIO);
    assert_null(m);
    assert_error("'/nowhere/cc'");
    assert_error("PCVR_CC");
    setenv("PCVR_CC", "false", 1);
    assert_int_equal(build(&m), PCVR_EIO);
    assert_error("PCVR_CC");
    assert_int_equal(count(""), 0);
}

static void
faulty_text(void **state)
{
    (void)state;
    const pcvr_module *m;
    assert_int_equal(
        pcvr_module_build("int x = ;\n", "pcvr_t", "scalar", &m, err, sizeof err),
        PCVR_EIO);
    assert_error("could not compile");
    assert_int_equal(count(""), 0);
    assert_int_equal(
        pcvr_module_build("int x;\n", "pcvr_t", "scalar", &m, err, sizeof err),
        PCVR_EFORMAT);
    assert_error("has no module pcvr_t_scalar");
}

static void
cache_cannot_be_made(void **state)
{
    (void)state;
    const pcvr_module *m;
    char path[128];
    snprintf(path, sizeof path, "%s/file", root);
    assert_true(pcvr_file_write(path, "x", 1, NULL));
    setenv("XDG_CACHE_HOME", path, 1);
    assert_int_equal(build(&m), PCVR_EIO);
    assert_error("set XDG_CACHE_HOME");
}

static void
cache_of_others(void **state)
{
    (void)state;
    const pcvr_module *m;
    char path[128];
    snprintf(path, sizeof path, "%s/pcvr", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(build(&m), PCVR_EIO);
    assert_error("only you can write");
    if (geteuid() == 0) {
        assert_int_equal(chmod(path, 0700), 0);
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(build(&m), PCVR_EIO);
        assert_error("only you can write");
        assert_int_equal(chown(path, 0, 0), 0);
    } else {
        assert_int_equal(chmod(path, 0500), 0);
        assert_int_equal(build(&m), PCVR_EIO);
        assert_error("set XDG_CACHE_HOME");
    }
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(build(&m), PCVR_OK);
}

static void
full_disk(void **state)
{
    (void)state;
    const pcvr_module *m;
    struct rlimit old, tiny;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tiny = old;
    tiny.rlim_cur = 16;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
    int rc = build(&m);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(rc, PCVR_EIO);
    assert_error("make room");
    assert_int_equal(count(""), 0);
}

// The first file of the cache that ends in .so.
static void
module_path(char *path, size_t size)
{
    char dir[80];
    snprintf(dir, sizeof dir, "%s/pcvr", root);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".so") != NULL)
            snprintf(path, size, "%s/%s", dir, e->d_name);
    closedir(d);
}

static void
cut_module_is_made_anew(void **state)
{
    (void)state;
    const pcvr_module *m;
    char path[400] = "";
    assert_int_equal(build(&m), PCVR_OK);
    module_path(path, sizeof path);
    assert_int_equal(unlink(path), 0); // the loaded one stays mapped
    assert_true(pcvr_file_write(path,
                                "\x7f"
                                "ELF",
                                4, NULL));
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(build(&m), PCVR_OK);
    assert_int_equal(m->abi, PCVR_ABI);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(build(&m), PCVR_EIO);
    assert_error("remove it");
}

// Files whose headers are whole but whose pages are missing or wrong would kill the
// program when they are loaded or run.
static void
damaged_module_is_made_anew(void **state)
{
    (void)state;
    const pcvr_module *m;
    char path[400] = "";
    size_t whole = 0, n = 0;
    assert_int_equal(build(&m), PCVR_OK);
    module_path(path, sizeof path);
    char *bytes = pcvr_file_read(path, &whole, NULL);
    assert_non_null(bytes);
    assert_true(whole > 5000);
    for (int k = 0; k < 6; k++) {
        const size_t sizes[] = {0, 1000, 4096, whole - 1, whole - 4, whole};
        if (sizes[k] == whole)
            bytes[whole / 2] ^= 0x20;
        assert_int_equal(unlink(path), 0);
        assert_true(pcvr_file_write(path, bytes, sizes[k], NULL));
        assert_int_equal(chmod(path, 0700), 0);
        assert_int_equal(build(&m), PCVR_OK);
        assert_int_equal(m->abi, PCVR_ABI);
        char *again = pcvr_file_read(path, &n, NULL);
        assert_non_null(again);
        assert_int_equal(n, whole);
        free(again);
    }
    free(bytes);
}

static void
without_a_home(void **state)
{
    (void)state;
    const pcvr_module *m;
    char *home = getenv("HOME") != NULL ? strdup(getenv("HOME")) : NULL;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(build(&m), PCVR_OK);
    assert_string_equal(m->name, "t");
    setenv("HOME", root, 1);
    assert_int_equal(build(&m), PCVR_OK);
    char path[128];
    snprintf(path, sizeof path, "%s/.cache/pcvr", root);
    assert_int_equal(access(path, F_OK), 0);
    if (home != NULL)
        setenv("HOME", home, 1);
    free(home);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(builds_and_caches, setup, teardown),
        cmocka_unit_test_setup_teardown(flags_and_headers_are_in_the_key, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_compiler, setup, teardown),
        cmocka_unit_test_setup_teardown(faulty_text, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_cannot_be_made, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_module_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_module_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_home, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
