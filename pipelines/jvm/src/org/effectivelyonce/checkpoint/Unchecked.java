package org.effectivelyonce.checkpoint;

/** Lets checked exceptions leave methods of Scala traits, which declare none although their callers catch them. */
final class Unchecked {
  private Unchecked() {}

  /** Throws what it is given; the return type lets a caller write {@code throw}. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException thrown(Throwable cause) throws E {
    throw (E) cause;
  }
}
